"""The strict scalar functions: for each name, how to build it for one call.

A builder gets the :class:`~viewlet.core.scalar.Call`, so that it knows the types of the arguments and of the
result, and returns a function of physical values that are not NULL.
"""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.core.casts import Builder, cast_function, try_cast_function
from viewlet.core.dates import DATE_FUNCTIONS
from viewlet.core.formats import FORMAT_FUNCTIONS
from viewlet.core.numbers import NUMBER_FUNCTIONS
from viewlet.core.patterns import PATTERN_FUNCTIONS
from viewlet.core.strings import TEXT_FUNCTIONS

FUNCTIONS: Mapping[str, Builder] = {
    "cast": lambda call: cast_function(call.args[0].type, call.type),
    "try_cast": lambda call: try_cast_function(call.args[0].type, call.type),
    **NUMBER_FUNCTIONS,
    **TEXT_FUNCTIONS,
    **PATTERN_FUNCTIONS,
    **DATE_FUNCTIONS,
    **FORMAT_FUNCTIONS,
}
