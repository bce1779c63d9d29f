"""Batch gradient descent for linear regression, as a matrix program."""

from __future__ import annotations

from viewlet.linalg.iterate import iterate
from viewlet.linalg.nodes import Expr, Operand, as_matrix


def gradient_descent(X: Operand, Y: Operand, start: Operand, *, rate: float, k: int) -> Expr:
    """Theta_k of Theta_(i+1) = Theta_i - rate X'(X Theta_i - Y).

    In the general form T = A T + B this has A = I - rate X'X and B = rate X'Y; a change of one row of X is
    a change of rank two of A and of rank one of B.

    >>> from viewlet.linalg.nodes import Input
    >>> gradient_descent(Input("X", (9, 2)), Input("Y", (9, 1)), Input("T0", (2, 1)), rate=0.1, k=4).shape
    (2, 1)
    """
    features, targets = as_matrix(X), as_matrix(Y)
    return iterate(lambda theta: theta - rate * (features.T @ (features @ theta - targets)), start, k)
