"""What is computed as DataFrames, with provably the same result as by StreamTasks.

``choose`` gives a verdict with a reason for every sub-topology and node, and a plan for what need
not run record by record (``docs/adr/0042-what-is-computed-as-dataframes.md``). The units of a plan
are read (``rows``, ``counted``), computed (``columns``, ``computing``) and loaded (``load``).
"""
