"""An overview of one application, for people: values, and pure functions that make them.

Two readers gather what the functions take: ``local.collect`` from the files of a local cluster,
``observe.overview`` from the API server. The live view, the commands and the page show the values.
"""
