"""Transformers are Python code: none is computed as a DataFrame."""

from headwater.model.operators.transform import TableTransformValues
from headwater.spark.frames.flow import refuse

refuse(TableTransformValues, "a transformer is Python code, with state and time of its own")
