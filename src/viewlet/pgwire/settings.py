"""The parameters of a session. A value that would mean something else here than it says is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from viewlet.pgwire.errors import WireError
from viewlet.pgwire.to_duckdb import VERSION

_DEFAULTS = {
    "application_name": "",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "datestyle": "ISO, MDY",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "extra_float_digits": "1",
    "idle_in_transaction_session_timeout": "0",
    "integer_datetimes": "on",
    "intervalstyle": "postgres",
    "in_hot_standby": "off",
    "is_superuser": "off",
    "jit": "off",
    "lc_collate": "C",
    "lc_ctype": "C",
    "lock_timeout": "0",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "search_path": '"$user", public',
    "server_encoding": "UTF8",
    "server_version": VERSION,
    "server_version_num": "150000",
    "session_authorization": "",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "timezone": "UTC",
    "transaction_isolation": "read committed",
    "transaction_read_only": "on",
}

_REPORTED = {
    "application_name": "application_name",
    "client_encoding": "client_encoding",
    "datestyle": "DateStyle",
    "default_transaction_read_only": "default_transaction_read_only",
    "in_hot_standby": "in_hot_standby",
    "integer_datetimes": "integer_datetimes",
    "intervalstyle": "IntervalStyle",
    "is_superuser": "is_superuser",
    "server_encoding": "server_encoding",
    "server_version": "server_version",
    "session_authorization": "session_authorization",
    "standard_conforming_strings": "standard_conforming_strings",
    "timezone": "TimeZone",
}

# What a value must be, in lower case, to mean the same here.
_ONLY = {
    "bytea_output": ("hex",),
    "client_encoding": ("utf8", "utf-8", "unicode"),
    "datestyle": ("iso", "iso, mdy", "iso, dmy", "iso, ymd"),
    "intervalstyle": ("postgres",),
    "standard_conforming_strings": ("on", "true", "1"),
    "default_transaction_read_only": ("on", "true", "1"),
    "transaction_read_only": ("on", "true", "1"),
}
_FIXED = (
    *("integer_datetimes", "is_superuser", "lc_collate", "lc_ctype", "server_encoding", "server_version"),
    *("server_version_num", "session_authorization", "max_identifier_length", "max_index_keys"),
)


_OPTION = re.compile(r"(?:-c\s*|--)([\w.]+)=(\S*)")


class Settings(Mapping[str, str]):
    """Parameters by lower-case name.

    >>> settings = Settings("ann")
    >>> settings.set("DateStyle", "ISO")
    ('DateStyle', 'ISO')
    >>> settings["datestyle"]
    'ISO'
    """

    def __init__(self, user: str) -> None:
        self._defaults = _DEFAULTS | {"session_authorization": user}
        self._values = dict(self._defaults)

    def __getitem__(self, name: str) -> str:
        try:
            return self._values[name.lower()]
        except KeyError:
            raise WireError("42704", f"there is no parameter {name!r}") from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def set(self, name: str, value: str | None) -> tuple[str, str] | None:
        """Set a parameter, or reset it; gives what the client is to be told, if it wants to know."""
        key = name.lower()
        if key == "all" and value is None:
            self._values = dict(self._defaults)
            return None
        if key not in self._values and "." not in key:
            raise WireError("42704", f"there is no parameter {name!r}")
        if value is None:
            value = self._defaults.get(key, "")
        elif key in _FIXED and value != self._values[key]:
            raise WireError("55P02", f"parameter {name!r} cannot be changed")
        if key in _ONLY and value.lower() not in _ONLY[key]:
            raise WireError("22023", f"{name} = {value!r} is not possible here; use {_ONLY[key][0]}")
        if key == "statement_timeout":
            milliseconds(value)
        if len(value) > 1000 or len(self._values) > 200:
            raise WireError("53400", "parameters take too much space")
        self._values[key] = value
        return (_REPORTED[key], value) if key in _REPORTED else None

    def begin(self, parameters: Mapping[str, str]) -> None:
        """Take over what a client says when it begins, also in its ``options`` as ``-c name=value``."""
        for name, value in [*parameters.items(), *_OPTION.findall(parameters.get("options", ""))]:
            if name in self:
                self.set(name, value.strip("'"))

    def reported(self) -> list[tuple[str, str]]:
        """What a client is told when it begins."""
        return [(shown, self._values[name]) for name, shown in _REPORTED.items()]

    @property
    def timeout(self) -> float | None:
        """Seconds that a statement may take."""
        return milliseconds(self["statement_timeout"]) / 1000 or None


def milliseconds(text: str) -> int:
    """A duration as PostgreSQL's settings have it.

    >>> milliseconds("1500"), milliseconds("2s"), milliseconds("1min")
    (1500, 2000, 60000)
    """
    for unit, factor in ("ms", 1), ("min", 60_000), ("s", 1000), ("h", 3_600_000), ("", 1):
        number = text.strip().removesuffix(unit).strip()
        if text.strip().endswith(unit) and number.isdigit():
            return int(number) * factor
    raise WireError("22023", f"{text!r} is no duration; write milliseconds, or a number with ms, s, min or h")
