"""Incremental linear algebra: matrix programs whose results stay fresh while their inputs change."""

from viewlet.linalg.view import input, maintain
from viewlet.linalg.iterate import iterate
from viewlet.linalg.nodes import power, power_sum
from viewlet.linalg.save import load
