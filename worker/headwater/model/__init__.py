"""Values: topologies, plans, resources, life cycles. No behaviour that touches a device."""
