"""The text of a client to a statement: its first words are read here, queries by sqlglot."""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import SqlError, UnsupportedError, choices
from viewlet.pgwire.errors import WireError
from viewlet.pgwire.statements import (
    CloseCursor,
    Copy,
    Deallocate,
    Declare,
    Discard,
    Explain,
    Fetch,
    Read,
    SetParameter,
    Show,
    Statement,
    Subscribe,
    Transaction,
    TransactionWord,
    Unlisten,
)
from viewlet.sql.parse import parse_query

DIALECT = "postgres"

_READS = ("SELECT", "WITH", "VALUES", "(", "TABLE")
_WRITES = (
    *("INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "ALTER", "DROP", "TRUNCATE", "GRANT", "REVOKE"),
    *("COMMENT", "REFRESH", "VACUUM", "ANALYZE", "LOCK", "REINDEX", "CLUSTER", "CALL", "DO"),
)
_KNOWN = ("SELECT", "WITH", "VALUES", "TABLE", "SUBSCRIBE", "COPY", "EXPLAIN", "SHOW", "SET")
_RESERVED = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "TABLE", "CREATE", "GRANT", "REFERENCES"})
_UNREAD = (TokenType.COMMAND, TokenType.FETCH, TokenType.SHOW)
_TRANSACTIONS: dict[str, TransactionWord] = {
    "BEGIN": "BEGIN",
    "START": "BEGIN",
    "COMMIT": "COMMIT",
    "END": "COMMIT",
    "ROLLBACK": "ROLLBACK",
    "ABORT": "ROLLBACK",
    "SAVEPOINT": "SAVEPOINT",
    "RELEASE": "RELEASE",
}


def statement_of(text: str) -> Statement | None:
    """The statement of a text, ``None`` if it is empty.

    >>> statement_of("SUBSCRIBE TO totals WITH (SNAPSHOT)")
    Subscribe(view='totals', snapshot=True, weights=False)
    >>> statement_of("set time zone 'UTC'"), statement_of(" -- nothing")
    (SetParameter(name='timezone', value='UTC'), None)
    """
    reader = _Reader(text)
    if not reader.tokens:
        return None
    try:
        return reader.statement()
    except RecursionError:
        raise WireError("54001", "the statement is nested too deeply") from None


def _lists_of_oids(text: str) -> str:
    """``oid[]`` as ``uint[]``: sqlglot knows no lists of PostgreSQL's own types; asyncpg asks with this one.

    >>> _lists_of_oids("SELECT 'oid[]', $1::oid[]")
    "SELECT 'oid[]', $1::uint[]"
    """
    if "oid[]" not in text.lower():
        return text
    for token, opening, closing in reversed(list(_threes(sqlglot.tokenize(text, read=DIALECT)))):
        if (token.text.lower(), opening.text, closing.text) == ("oid", "[", "]"):
            text = f"{text[: token.start]}uint{text[token.end + 1 :]}"
    return text


def _threes(tokens: list[Token]) -> Iterator[tuple[Token, Token, Token]]:
    return zip(tokens, tokens[1:], tokens[2:], strict=False)


def _labels(tokens: list[Token]) -> Iterator[Token]:
    """Names of result columns that are reserved words: after AS, PostgreSQL takes any.

    >>> [label.text for label in _labels(sqlglot.tokenize("SELECT a AS select, b AS c FROM r", read=DIALECT))]
    ['select']
    """
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        ends = after.token_type in (TokenType.COMMA, TokenType.FROM, TokenType.R_PAREN)
        if before.token_type is TokenType.ALIAS and token.text.upper() in _RESERVED and ends:
            yield token


class _Reader:
    """A statement, read word by word."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        try:
            self._text = text = _lists_of_oids(text)
            tokens = sqlglot.tokenize(text, read=DIALECT)
            if len(tokens) > 1 and tokens[0].token_type in _UNREAD:
                # sqlglot does not look into such statements; behind blanks their words are words again.
                start = tokens[0].end + 1
                tokens[1:] = sqlglot.tokenize(" " * start + text[start:], read=DIALECT)
        except TokenError as reason:
            raise SqlError(f"the text cannot be read: {reason}") from None
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        self.tokens: list[Token] = tokens

    def statement(self) -> Statement:
        word = self._peek()
        if word in _READS:
            return Read(self._query())
        if word in _WRITES:
            raise WireError(
                "25006",
                f"{word} is refused: this connection reads, changes are made where the views are kept",
            )
        self._next()
        match word:
            case "SUBSCRIBE":
                return self._subscribe()
            case "COPY":
                return self._copy()
            case "EXPLAIN":
                return self._explain()
            case "SET":
                return self._set()
            case "RESET":
                return SetParameter(self._name(), None)
            case "SHOW":
                return Show(self._parameter())
            case "DECLARE":
                return self._declare()
            case "FETCH":
                return self._fetch()
            case "CLOSE":
                name = self._name()
                return CloseCursor(None if name == "all" else name)
            case "DEALLOCATE":
                self._accept("PREPARE")
                name = self._name()
                return Deallocate(None if name == "all" else name)
            case "DISCARD":
                return Discard()
            case "UNLISTEN":
                return Unlisten()
            case "ROLLBACK" if self._peek() == "TO" or (
                self._accept("WORK", "TRANSACTION") and self._peek() == "TO"
            ):
                return Transaction("ROLLBACK TO")
            case _ if word in _TRANSACTIONS:
                return Transaction(_TRANSACTIONS[word])
            case _:
                raise SqlError(f"{word} begins no statement that is known here; {choices(word, _KNOWN)}")

    def _peek(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self.tokens[place].text.upper() if place < len(self.tokens) else ""

    def _next(self) -> Token:
        if self._at >= len(self.tokens):
            raise SqlError("the statement ends too early")
        self._at += 1
        return self.tokens[self._at - 1]

    def _accept(self, *words: str) -> bool:
        if self._peek() in words:
            self._at += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise SqlError(f"expected {word}, found {self._peek() or 'the end of the statement'}")

    def _end(self) -> None:
        if self._at < len(self.tokens):
            raise SqlError(f"the statement should end before {self.tokens[self._at].text!r}")

    def _name(self) -> str:
        token = self._next()
        quoted = self._text[token.start] == '"'
        return token.text if quoted else token.text.lower()

    def _relation(self) -> str:
        name = self._name()
        while self._accept("."):
            name = self._name()
        return name

    def _query(self) -> exp.Query:
        """The query that the rest of the statement is."""
        tokens = self.tokens[self._at :]
        self._at = len(self.tokens)
        text = self._text
        for token in reversed(list(_labels(tokens))):
            text = f'{text[: token.start]}"{token.text.lower()}"{text[token.end + 1 :]}'
        end = len(text) - len(self._text) + tokens[-1].end + 1
        return parse_query(text[tokens[0].start : end], DIALECT)

    def _subscribe(self) -> Subscribe:
        self._accept("TO")
        view = self._relation()
        options: set[str] = set()
        if self._accept("WITH"):
            self._expect("(")
            while not self._accept(")"):
                option = self._name()
                if option not in ("snapshot", "weights"):
                    raise SqlError(f"SUBSCRIBE has the options SNAPSHOT and WEIGHTS, not {option!r}")
                options.add(option)
                self._accept(",")
        self._end()
        return Subscribe(view, "snapshot" in options, "weights" in options)

    def _copy(self) -> Copy:
        """``COPY (query) TO STDOUT`` or ``COPY name TO STDOUT``, and behind it ``CSV``, ``HEADER``."""
        words = [token.text.upper() for token in self.tokens]
        ends = [place for place in range(len(words)) if words[place : place + 2] == ["TO", "STDOUT"]]
        if not ends:
            raise UnsupportedError("COPY is known as COPY (query) TO STDOUT")
        options = set(words[ends[-1] + 2 :]) - {"WITH", "(", ")", ",", "FORMAT", "TRUE", "TEXT"}
        if not options <= {"CSV", "HEADER"}:
            unknown = ", ".join(sorted(options - {"CSV", "HEADER"}))
            raise UnsupportedError(f"COPY has the options CSV and HEADER, not {unknown}")
        copied = self._copied(ends[-1])
        return Copy(copied, "csv" if "CSV" in options else "text", "HEADER" in options)

    def _copied(self, end: int) -> Read | Subscribe:
        """What a COPY copies, which ends before a token."""
        inner, self.tokens = self.tokens[self._at : end], self.tokens[:end]
        if inner and inner[0].token_type is TokenType.L_PAREN:
            if inner[-1].token_type is not TokenType.R_PAREN or len(inner) < 3:
                raise SqlError("COPY: the parenthesis does not close")
            self.tokens.pop()
            self._at += 1
            if self._accept("SUBSCRIBE"):
                return self._subscribe()
            return Read(self._query())
        name = exp.to_identifier(self._relation(), quoted=True)
        self._end()
        return Read(exp.select("*").from_(exp.Table(this=name)))

    def _explain(self) -> Explain:
        if self._peek() in _READS:
            return Explain(self._query())
        target = self._relation()
        self._end()
        return Explain(target)

    def _parameter(self) -> str:
        if self._peek() == "TIME" and self._peek(1) == "ZONE":
            self._at += 2
            return "timezone"
        if self._peek() == "TRANSACTION" and self._peek(1) == "ISOLATION":
            self._at += 3
            return "transaction_isolation"
        name = self._name()
        while self._accept("."):
            name += f".{self._name()}"
        return name

    def _set(self) -> SetParameter:
        if self._peek() in ("SESSION", "LOCAL") and self._peek(1) != "CHARACTERISTICS":
            self._at += 1
        if self._peek() in ("SESSION", "TRANSACTION"):
            # Isolation levels: each read sees the last commit, whole, under any of them.
            return SetParameter("transaction_isolation", None)
        name = self._parameter()
        if name not in ("timezone", "names") and not self._accept("=", "TO"):
            raise SqlError(f"SET {name} needs = or TO")
        if name == "names":
            name = "client_encoding"
        self._accept("=", "TO")
        values = []
        while self._at < len(self.tokens):
            minus = "-" if self._accept("-") else ""
            values.append(minus + self._next().text)
            self._accept(",")
        default = [value.upper() for value in values] == ["DEFAULT"]
        return SetParameter(name, None if default else ", ".join(values))

    def _declare(self) -> Declare:
        name = self._name()
        while self._accept("BINARY", "INSENSITIVE", "ASENSITIVE", "NO", "SCROLL"):
            if self.tokens[self._at - 1].text.upper() == "BINARY":
                raise UnsupportedError(
                    "cursors by SQL give text; ask for binary rows by the extended protocol"
                )
        self._expect("CURSOR")
        if self._accept("WITH", "WITHOUT"):
            self._expect("HOLD")
        self._expect("FOR")
        return Declare(name, self._query())

    def _fetch(self) -> Fetch:
        self._accept("FORWARD", "NEXT")
        count = 1
        if self._accept("ALL"):
            count = 0
        elif self._peek().isdigit():
            count = int(self._next().text)
        self._accept("FROM", "IN")
        name = self._name()
        self._end()
        return Fetch(name, count)
