"""The delta of an inverse under a low-rank change, by the formula of Sherman, Morrison and Woodbury."""

from __future__ import annotations

from viewlet.linalg.apply import Applier
from viewlet.linalg.common_factors import Factored, Term
from viewlet.linalg.instructions import Divide, Named
from viewlet.linalg.nodes import Ref, transpose


def delta_inverse(applier: Applier, inverse: Ref, change: Factored) -> Factored:
    """(E + P Q')^-1 - W = -(W P) (I + Q' W P)^-1 (W' Q)',  W = E^-1

    The r x r matrix I + Q' W P is the *capacitance*: it is singular exactly when E + P Q' is, and running
    the program checks its condition. Where W is symmetric, W P and W' Q are one pass over W.
    """
    builder = applier.builder
    lefts, rights = [term.left for term in change], [term.right for term in change]
    if inverse.symmetric:
        both = applier.apply(inverse, lefts + rights)
        w_p, wt_q = both[: len(lefts)], both[len(lefts) :]
    else:
        w_p, wt_q = applier.apply(inverse, lefts), applier.apply(transpose(inverse), rights)
    left, right = builder.stack(w_p), builder.stack(wt_q)
    q_w_p = builder.multiply(Named(builder.stack(rights), transposed=True), Named(left))
    rank = builder.rank(left)
    capacitance = builder.combine([(1, Named(builder.unit(rank))), (1, Named(q_w_p))])
    quotient = builder.emit(Divide(left, capacitance, inverse.name), builder.shapes[left])
    return (Term(quotient, right),)
