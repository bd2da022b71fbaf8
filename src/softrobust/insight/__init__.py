"""Why this action here, and what more data would buy."""

from softrobust.insight.explain import Explanation, explain
from softrobust.insight.value_of_data import DataValue, value_of_data

__all__ = ["DataValue", "Explanation", "explain", "value_of_data"]
