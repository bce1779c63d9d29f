"""The functions of PostgreSQL that clients call about the catalog, as macros of DuckDB.

Each name has one or more overloads, ``(parameters) AS expression``. What they know about the database is
written into them, as CASE expressions over its relations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from viewlet.pgwire import types
from viewlet.pgwire.catalog import catalog_columns
from viewlet.pgwire.described import INFORMATION_SCHEMA, PG_CATALOG, PUBLIC, SPELLED, Described, oid_of
from viewlet.pgwire.pg_catalog import index_definition, type_functions
from viewlet.sql.catalog import Catalog

PREFIX = "viewlet_"

_NOTHING = (
    ("pg_get_expr", 2, 3),
    ("pg_get_partkeydef", 1, 1),
    ("pg_get_ruledef", 1, 2),
    ("pg_get_triggerdef", 1, 2),
    ("pg_get_statisticsobjdef_columns", 1, 1),
    ("pg_get_function_result", 1, 1),
    ("pg_get_function_arguments", 1, 1),
    ("pg_get_function_identity_arguments", 1, 1),
    ("pg_get_functiondef", 1, 1),
    ("pg_get_serial_sequence", 2, 2),
    ("pg_get_publication_tables", 1, 1),
    ("obj_description", 1, 2),
    ("shobj_description", 2, 2),
    ("col_description", 2, 2),
    ("pg_tablespace_location", 1, 1),
    ("inet_server_addr", 0, 0),
    ("inet_client_addr", 0, 0),
)

_PRIVILEGES = ("table", "schema", "database", "column", "any_column", "sequence", "function", "type")

_FIXED = {
    "pg_table_is_visible": ["(a) AS true"],
    "pg_type_is_visible": ["(a) AS true"],
    "pg_function_is_visible": ["(a) AS true"],
    "pg_relation_is_publishable": ["(a) AS false"],
    "pg_is_in_recovery": ["() AS false"],
    "pg_is_other_temp_schema": ["(a) AS false"],
    "pg_my_temp_schema": ["() AS CAST(0 AS UINTEGER)"],
    "pg_encoding_to_char": ["(a) AS 'UTF8'"],
    "pg_char_to_encoding": ["(a) AS 6"],
    "pg_size_pretty": ["(a) AS CAST(a AS VARCHAR) || ' bytes'"],
    "pg_column_is_updatable": ["(a, b, c) AS false"],
    "pg_relation_is_updatable": ["(a, b) AS 0"],
    "pg_postmaster_start_time": ["() AS now()"],
    "pg_advisory_unlock_all": ["() AS CAST(NULL AS VARCHAR)"],
    "txid_current": ["() AS CAST(0 AS BIGINT)"],
    "set_config": ["(a, b, c) AS b"],
    "quote_ident": ["""(a) AS CASE WHEN regexp_full_match(a, '[a-z_][a-z0-9_]*') THEN a
        ELSE '"' || replace(a, '"', '""') || '"' END"""],
    "array_remove": ["(a, b) AS list_filter(a, lambda x: x IS DISTINCT FROM b)"],
    "array_upper": ["(a, b) AS len(a)"],
    "array_lower": ["(a, b) AS CASE WHEN len(a) > 0 THEN 1 END"],
    "generate_subscripts": ["(a, b) AS unnest(range(1, len(a) + 1))"],
    "_pg_expandarray": ["(a) AS unnest([{'x': a[i], 'n': i} for i in range(1, len(a) + 1)])"],
}  # fmt: skip


def functions(described: Described, process: int) -> dict[str, list[str]]:
    """Every function by name, as the overloads of a macro."""
    found = {name: list(overloads) for name, overloads in _FIXED.items()}
    for name, least, most in _NOTHING:
        found[name] = [f"({_parameters(n)}) AS CAST(NULL AS VARCHAR)" for n in range(least, most + 1)]
    for kind in _PRIVILEGES:
        allowed = "regexp_matches(upper({0}), 'SELECT|USAGE|CONNECT')"
        found[f"has_{kind}_privilege"] = [
            f"(a, b) AS {allowed.format('b')}",
            f"(a, b, c) AS {allowed.format('c')}",
        ]
    for name in "pg_table_size", "pg_relation_size", "pg_total_relation_size", "pg_database_size":
        found[name] = ["(a) AS CAST(NULL AS BIGINT)"]
    found["pg_backend_pid"] = [f"() AS {process}"]
    found["pg_get_userbyid"] = [f"(a) AS {_quoted(described.user)}"]
    settings = {_quoted(name): _quoted(value) for name, value in described.settings.items()}
    setting = _case("lower(a)", settings, "CAST(NULL AS VARCHAR)")
    found["current_setting"] = [f"(a) AS {setting}", f"(a, b) AS {setting}"]
    return found | _definitions(described) | _names(described)


def _definitions(described: Described) -> dict[str, list[str]]:
    """Functions that spell out indexes, constraints and views."""
    keyed = [table for table in described.relations.values() if table.key]
    none = "CAST(NULL AS VARCHAR)"
    index = _case("a", {oid_of(f"{t.name}_pkey"): _quoted(index_definition(t)) for t in keyed}, none)
    lists = {oid_of(f"{t.name}_pkey"): f"([{', '.join(map(_quoted, t.key))}])[b]" for t in keyed}
    column = _case("a", lists, none)
    keys = {oid_of(f"{t.name}_pkey constraint"): _quoted(f"PRIMARY KEY ({', '.join(t.key)})") for t in keyed}
    constraint = _case("a", keys, none)
    texts = {oid_of(name): _quoted(f" {text};") for name, text in described.definitions.items()}
    view = _case("a", texts, none)
    return {
        "pg_get_indexdef": [f"(a) AS {index}", f"(a, b, c) AS CASE b WHEN 0 THEN {index} ELSE {column} END"],
        "pg_get_constraintdef": [f"(a) AS {constraint}", f"(a, b) AS {constraint}"],
        "pg_get_viewdef": [f"(a) AS {view}", f"(a, b) AS {view}"],
    }


def _names(described: Described) -> dict[str, list[str]]:
    """Functions between OIDs and names."""
    relations = {name: oid_of(name) for name in [*catalog_columns(), *described.relations]}
    relations |= {f"{t.name}_pkey": oid_of(f"{t.name}_pkey") for t in described.relations.values() if t.key}
    schemas = {PG_CATALOG: "pg_catalog", INFORMATION_SCHEMA: "information_schema", PUBLIC: "public"}
    unknown_oid, as_number = "CAST(NULL AS UINTEGER)", "CAST(a AS VARCHAR)"
    bare = "replace(regexp_replace(a, '^.*\\.', ''), '\"', '')"
    oid = _case(
        bare, {_quoted(n): f"CAST({number} AS UINTEGER)" for n, number in relations.items()}, unknown_oid
    )
    kinds = {kind.name: kind.oid for kind in types.TYPES} | {
        SPELLED[kind.name]: kind.oid for kind in types.TYPES if kind.name in SPELLED
    }
    kind = _case(
        bare, {_quoted(n): f"CAST({number} AS UINTEGER)" for n, number in kinds.items()}, unknown_oid
    )
    named = type_functions()
    function = _case(bare, {_quoted(n): f"CAST({o} AS UINTEGER)" for n, o in named.items()}, unknown_oid)
    return {
        "regproc_in": [f"(a) AS {function}"],
        "regproc_out": [f"(a) AS {_case('a', {o: _quoted(n) for n, o in named.items()}, as_number)}"],
        "regclass_in": [f"(a) AS {oid}"],
        "to_regclass": [f"(a) AS {oid}"],
        "regclass_out": [f"(a) AS {_case('a', {o: _quoted(n) for n, o in relations.items()}, as_number)}"],
        "regtype_in": [f"(a) AS {kind}"],
        "to_regtype": [f"(a) AS {kind}"],
        "regtype_out": [f"(a) AS {_format_type('NULL')}"],
        "regnamespace_out": [f"(a) AS {_case('a', {o: _quoted(n) for o, n in schemas.items()}, as_number)}"],
        "format_type": [f"(a, b) AS {_format_type('b')}"],
    }


def _format_type(modifier: str) -> str:
    precise = f"'numeric(' || (({modifier} - 4) >> 16) || ',' || (({modifier} - 4) & 65535) || ')'"
    spelled: dict[int, str] = {}
    for kind in types.TYPES:
        name = SPELLED.get(kind.name, kind.name)
        spelled[kind.array_oid] = _quoted(f"{name}[]")
        spelled[kind.oid] = _quoted(name)
    spelled[types.NUMERIC.oid] = f"CASE WHEN {modifier} >= 4 THEN {precise} ELSE 'numeric' END"
    return _case("a", spelled, "'???'")


def _case(value: str, branches: Mapping[int, str] | Mapping[str, str], otherwise: str) -> str:
    if not branches:
        return f"CASE WHEN {value} IS NULL THEN {otherwise} ELSE {otherwise} END"
    listed = " ".join(f"WHEN {key} THEN {result}" for key, result in branches.items())
    return f"CASE {value} {listed} ELSE {otherwise} END"


def _parameters(count: int) -> str:
    return ", ".join("abc"[:count])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def macros(names: Iterable[str], described: Described, process: int) -> list[str]:
    """The statements that create the named functions in DuckDB."""
    known = functions(described, process)
    return [f"CREATE TEMP MACRO {PREFIX}{name}{', '.join(known[name])}" for name in names]


_BEHIND_CASTS = ("class_in", "class_out", "type_in", "type_out", "proc_in", "proc_out", "namespace_out")

FUNCTION_NAMES = frozenset(functions(Described(Catalog(), {}, "", "", {}), 0)) - {
    f"reg{end}" for end in _BEHIND_CASTS
}
"""What a client may call; the functions behind casts have no names for clients."""
