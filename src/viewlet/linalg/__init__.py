"""Incremental linear algebra: matrix programs whose results stay fresh while their inputs change.

>>> import numpy as np
>>> import viewlet.linalg as vl
>>> A = vl.input("A", (3, 3))
>>> view = vl.maintain({"C": vl.power(A, 4)}, A=0.5 * np.eye(3))
>>> change = view.update("A", rows={0: [0.5, 1.0, 0.0]})
>>> view["C"][0].tolist()
[0.0625, 0.5, 0.0]
"""

from viewlet.linalg.array_api import ArrayApi
from viewlet.linalg.blas import Blas
from viewlet.linalg.converge import ConvergingView, converge
from viewlet.linalg.cost import Machine, calibrate
from viewlet.linalg.descent import gradient_descent
from viewlet.linalg.drift import Health
from viewlet.linalg.errors import (
    DriftWarning,
    IllConditionedError,
    LinalgError,
    NumericalError,
    ShapeError,
    SingularError,
)
from viewlet.linalg.factored import Change, LowRank
from viewlet.linalg.feed import feed_graph, feed_matrix, feed_regression
from viewlet.linalg.grouped import GroupedOLS
from viewlet.linalg.iterate import iterate
from viewlet.linalg.markov import MarkovChain
from viewlet.linalg.modular import Modular
from viewlet.linalg.nodes import block, identity, power, power_sum, stored
from viewlet.linalg.ols import OLS
from viewlet.linalg.pagerank import PageRank
from viewlet.linalg.save import load
from viewlet.linalg.text import parse, show
from viewlet.linalg.view import MatrixView, Update, input, maintain

__all__ = [
    "OLS",
    "ArrayApi",
    "Blas",
    "Change",
    "ConvergingView",
    "DriftWarning",
    "GroupedOLS",
    "Health",
    "IllConditionedError",
    "LinalgError",
    "LowRank",
    "Machine",
    "MarkovChain",
    "MatrixView",
    "Modular",
    "NumericalError",
    "PageRank",
    "ShapeError",
    "SingularError",
    "Update",
    "block",
    "calibrate",
    "converge",
    "feed_graph",
    "feed_matrix",
    "feed_regression",
    "gradient_descent",
    "identity",
    "input",
    "iterate",
    "load",
    "maintain",
    "parse",
    "power",
    "power_sum",
    "show",
    "stored",
]
