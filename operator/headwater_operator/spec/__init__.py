"""The custom resource definitions and their reference pages, from the typed resources alone."""

from headwater_operator.spec.changing import field_changes, live_changes_page
from headwater_operator.spec.definitions import custom_resource_definitions
from headwater_operator.spec.reference import reference_pages

__all__ = [
    "custom_resource_definitions",
    "field_changes",
    "live_changes_page",
    "reference_pages",
]
