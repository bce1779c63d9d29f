"""CAST and TRY_CAST, as the dialect of a statement means them."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from sqlglot import exp

from viewlet.core.scalar import Call, Const, Scalar, call
from viewlet.core.types import DATE, DOUBLE, INT, TIMESTAMP, Kind, Type
from viewlet.sql import scalars
from viewlet.sql.position import unsupported
from viewlet.sql.text_functions import check_text
from viewlet.sql.typing import TypeMismatchError, round_type, type_of

EPOCH = datetime(1970, 1, 1)


def cast_of(node: exp.Cast, operand: Scalar) -> Scalar:
    """A cast of an operand that has been read already."""
    scalar, kind = _as_the_dialect_casts(node, operand), type_of(node.to)
    if isinstance(node, exp.TryCast) and not node.this.is_number:  # 1.5D is read as one
        return _try_cast(scalar, kind)
    return convert(scalar, kind)


def _as_the_dialect_casts(node: exp.Cast, scalar: Scalar) -> Scalar:
    """``CAST(x AS INT)`` cuts the fraction in Spark; where a dialect rounds, x is rounded before the cast."""
    fraction = scalar.type.kind in (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE)
    if node.args.get("other_text"):
        check_text(node, scalar)
    if not fraction or not (rounds := node.args.get("rounds")):
        return scalar
    if rounds == "unknown":
        raise unsupported(
            node, f"the cast of a {scalar.type} to an integer in this dialect", "round or floor the number"
        )
    if scalar.type.kind == Kind.DECIMAL:
        return call("round", scalar, Const(0, INT), type=round_type(scalar.type, 0))
    return call("rint", scalars.real(scalar, "CAST"), type=DOUBLE)


def _try_cast(scalar: Scalar, kind: Type) -> Scalar:
    """CAST, or NULL for values that do not fit; a cast that has no meaning has none here either."""
    converted = scalars.cast(scalar, kind)
    if isinstance(converted, Call) and converted.op == "cast" and converted is not scalar:
        return call("try_cast", *converted.args, type=kind)
    return converted


def convert(scalar: Scalar, kind: Type) -> Scalar:
    """CAST; a date or timestamp written as text becomes a constant at once.

    >>> from viewlet.core.types import VARCHAR
    >>> convert(Const("1970-01-02", VARCHAR), DATE).value
    1
    """
    if isinstance(scalar, Const) and isinstance(scalar.value, str) and kind in (DATE, TIMESTAMP):
        try:
            if kind == DATE:
                return Const((date.fromisoformat(scalar.value.strip()) - EPOCH.date()).days, DATE)
            instant = datetime.fromisoformat(scalar.value.strip())
            return Const((instant - EPOCH) // timedelta(microseconds=1), TIMESTAMP)
        except (ValueError, TypeError):
            raise TypeMismatchError(
                f"{scalar.value!r} is not a {kind} without time zone in ISO form"
            ) from None
    return scalars.cast(scalar, kind)
