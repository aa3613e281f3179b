"""Cogroups are not computed as DataFrames: what comes of which stream first has an order."""

from headwater.model.operators.cogroup import CogroupMerge
from headwater.spark.frames.flow import refuse

refuse(CogroupMerge, "the streams of a cogroup meet in an order that only tasks have")
