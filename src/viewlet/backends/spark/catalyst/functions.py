"""The functions of Catalyst that are functions of SQL with the same arguments in the same order."""

from __future__ import annotations

BINARY = {
    "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "Remainder": "%", "EqualTo": "=",
    "LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">", "GreaterThanOrEqual": ">=", "And": "AND",
    "Or": "OR", "IntegralDivide": "DIV", "EqualNullSafe": "<=>",
}  # fmt: skip

SCALARS = {
    "Coalesce": "coalesce", "Greatest": "greatest", "Least": "least",
    "Abs": "abs", "Signum": "sign", "Round": "round", "Floor": "floor", "Ceil": "ceil", "Sqrt": "sqrt",
    "Exp": "exp", "Log": "ln", "Logarithm": "log", "Log2": "log2", "Log10": "log10", "Pow": "power",
    "Substring": "substring", "Upper": "upper", "Lower": "lower", "Length": "length", "Concat": "concat",
    "Reverse": "reverse", "StringLPad": "lpad", "StringRPad": "rpad", "StringRepeat": "repeat",
    "StringInstr": "instr", "StringReplace": "replace", "Left": "left", "Right": "right",
    "StartsWith": "startswith", "EndsWith": "endswith", "Contains": "contains",
    "Year": "year", "Quarter": "quarter", "Month": "month", "WeekOfYear": "weekofyear", "DayOfMonth": "day",
    "DayOfWeek": "dayofweek", "WeekDay": "weekday", "DayOfYear": "dayofyear", "Hour": "hour",
    "Minute": "minute", "Second": "second", "LastDay": "last_day", "DateAdd": "date_add",
    "DateSub": "date_sub", "DateDiff": "datediff", "AddMonths": "add_months",
    "TruncTimestamp": "date_trunc", "TruncDate": "trunc",
}  # fmt: skip

AGGREGATES = {
    "Sum": "sum", "Count": "count", "Average": "avg", "Min": "min", "Max": "max", "MaxBy": "max_by",
    "MinBy": "min_by", "AnyValue": "any_value", "StddevSamp": "stddev_samp", "StddevPop": "stddev_pop",
    "VarianceSamp": "var_samp", "VariancePop": "var_pop", "Corr": "corr", "CovSample": "covar_samp",
    "CovPopulation": "covar_pop",
}  # fmt: skip

RANKS = {"Rank": "rank", "DenseRank": "dense_rank", "RowNumber": "row_number"}
PARTS = {"NTile": "ntile"}
SHARES = {"PercentRank": "percent_rank", "CumeDist": "cume_dist"}
NEIGHBOURS = {"Lag": "lag", "Lead": "lead"}
ENDS = {"First": "first_value", "Last": "last_value", "NthValue": "nth_value"}

HINTS = {
    "First": "which row comes first is left open: use min, max, max_by, min_by or any_value",
    "Last": "which row comes last is left open: use min, max, max_by, min_by or any_value",
    "PythonUDF": "nothing is known of it: compute the column before the rows arrive",
    "Rand": "it gives another value every time",
    "CurrentDate": "it gives another value every day: put the date into a table",
    "CurrentTimestamp": "it gives another value every time: put the time into a table",
    "Now": "it gives another value every time: put the time into a table",
    "RLike": "there are LIKE, startswith, endswith and contains",
    "TimeWindow": "use date_trunc",
    "CreateNamedStruct": "columns have simple types: for window() use date_trunc",
    "DateFormatClass": "use year, month, date_trunc and the like",
}
"""What to do instead of what a view cannot have."""
