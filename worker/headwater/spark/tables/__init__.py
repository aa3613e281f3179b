"""Topics and stores as DataFrames, to look into them (``docs/dataframes.md``)."""
