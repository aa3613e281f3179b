"""Benchmarks: side by side with other systems (``run``), and of single parts (``micro``)."""
