"""The scalar functions that SQL text turns into, and the typed constructors that build them.

Every scalar of a resolved query is a ``Const``, a ``Var`` or a ``Call`` whose ``op`` is listed in
:data:`OPERATIONS`; ``core/functions.py`` gives each its meaning. The type on a call is Spark's (ANSI mode).
Values are physical (``core/types.py``), so the argument types matter:

*Numbers.* ``+ - * / % div`` and comparisons may have operands of different exact types: align them by
their scales. If either operand is floating, both are taken as floats. A result that does not fit its type,
and a division by zero of any type, is an error; a result with more digits after the point than its type has
is rounded half up. Every other function gets arguments of exactly the types that its line below names,
because conversions are explicit ``cast`` calls.

*NULL.* A function is strict (NULL in, NULL out) unless its line says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

OPERATIONS: Mapping[str, str] = {
    # arithmetic
    "+": "(a, b) numbers",
    "-": "(a, b) numbers",
    "*": "(a, b) numbers",
    "/": "(a, b) numbers; the result is DOUBLE or DECIMAL, never an integer type",
    "%": "(a, b) numbers; the sign is the dividend's",
    "div": "(a, b) exact numbers; the quotient without its fraction, BIGINT",
    "neg": "(a) number",
    "abs": "(a) number",
    "sign": "(a DOUBLE) -1.0, 0.0 or 1.0, DOUBLE",
    "round": "(a number, digits INT literal, maybe negative) half up, away from zero",
    "floor": "(a number) BIGINT, or DECIMAL with scale 0",
    "ceil": "(a number) BIGINT, or DECIMAL with scale 0",
    "sqrt": "(a DOUBLE) DOUBLE; an error below zero",
    "exp": "(a DOUBLE) DOUBLE",
    "ln": "(a DOUBLE) DOUBLE; NULL at zero and below",
    "power": "(a DOUBLE, b DOUBLE) DOUBLE",
    # comparisons and logic
    "=": "(a, b) comparable: two numbers, or the same type; likewise the others",
    "<>": "(a, b)",
    "<": "(a, b)",
    "<=": "(a, b)",
    ">": "(a, b)",
    ">=": "(a, b)",
    "==": "(a, b) identity: NULL == NULL is TRUE, never NULL",
    "and": "(conditions...) three-valued",
    "or": "(conditions...) three-valued",
    "not": "(condition)",
    "is_null": "(a) never NULL",
    "is_true": "(condition) never NULL",
    "in": "(a, literals...) = ANY in three-valued logic: a literal may be NULL",
    "like": "(a VARCHAR, pattern VARCHAR[, escape VARCHAR of one character, default backslash])",
    # choices
    "case": "(c1, v1, c2, v2, ..., else) the first v whose c is TRUE; values have the call's type",
    "coalesce": "(a...) the first that is not NULL; arguments have the call's type",
    "greatest": "(a...) of the arguments that are not NULL; arguments have the call's type",
    "least": "(a...) of the arguments that are not NULL; arguments have the call's type",
    "cast": "(a) to the call's type; text that does not parse and values out of range are errors",
    # strings
    "concat": "(a VARCHAR...) VARCHAR",
    "substring": "(a VARCHAR, start INT[, length INT]) from 1; 0 counts as 1, below 0 from the end",
    "left": "(a VARCHAR, n INT)",
    "right": "(a VARCHAR, n INT)",
    "upper": "(a VARCHAR)",
    "lower": "(a VARCHAR)",
    "trim": "(a VARCHAR[, characters VARCHAR, default a space])",
    "ltrim": "(a VARCHAR[, characters VARCHAR])",
    "rtrim": "(a VARCHAR[, characters VARCHAR])",
    "replace": "(a VARCHAR, search VARCHAR, replacement VARCHAR); an empty search changes nothing",
    "length": "(a VARCHAR) in code points, INT",
    "position": "(needle VARCHAR, a VARCHAR) from 1, 0 if absent, INT",
    "starts_with": "(a VARCHAR, prefix VARCHAR) BOOLEAN",
    "ends_with": "(a VARCHAR, suffix VARCHAR) BOOLEAN",
    "contains": "(a VARCHAR, part VARCHAR) BOOLEAN",
    "lpad": "(a VARCHAR, n INT, padding VARCHAR) cut to n if longer",
    "rpad": "(a VARCHAR, n INT, padding VARCHAR) cut to n if longer",
    "repeat": "(a VARCHAR, n INT)",
    "reverse": "(a VARCHAR)",
    # dates and times; x is DATE or TIMESTAMP
    "year": "(x) INT",
    "quarter": "(x) INT",
    "month": "(x) INT",
    "week": "(x) ISO week, INT",
    "day": "(x) of the month, INT",
    "dayofweek": "(x) 1 is Sunday, INT",
    "weekday": "(x) 0 is Monday, INT",
    "dayofyear": "(x) INT",
    "hour": "(x TIMESTAMP) INT",
    "minute": "(x TIMESTAMP) INT",
    "second": "(x TIMESTAMP) whole seconds if INT, with microseconds if DECIMAL(8,6)",
    "date_trunc": "(unit VARCHAR literal: year quarter month week day hour minute second, x) x's type",
    "add_days": "(x DATE, n INT) DATE",
    "add_months": "(x, n INT) x's type; the day is clamped to the month's last",
    "add_micros": "(x TIMESTAMP, n BIGINT) TIMESTAMP",
    "days_between": "(later DATE, earlier DATE) INT",
    "last_day": "(x DATE) the last day of its month, DATE",
}
