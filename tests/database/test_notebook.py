"""What a notebook shows."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import viewlet


class Balanced(HTMLParser):
    """Every tag that is opened is closed, and in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def shown(thing: object) -> str:
    html: str = thing._repr_html_()  # type: ignore[attr-defined]
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    return html


def test_databases_tables_views_and_explanations() -> None:
    db = viewlet.connect(backend="reference")
    db.execute("CREATE TABLE r (a BIGINT, b VARCHAR); CREATE STREAM s (a BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT b, sum(a) AS t FROM r GROUP BY b")
    db.insert("r", [(n, f"<script>{n}") for n in range(25)] + [(1, None)])
    assert "<td>r</td><td>table</td><td>26</td><td>a BIGINT, b VARCHAR</td>" in shown(db)
    assert "<td>s</td><td>stream</td><td></td>" in shown(db)
    table = shown(db.table("r"))
    assert "<script>" not in table
    assert "&lt;script&gt;3" in table
    assert "6 more rows" in table
    assert len(re.findall("<tr>", table)) == 21
    assert "<i>NULL</i>" in shown(db.view("v"))
    assert len(re.findall("<tr>", shown(db.table("s")))) == 1
    explained = db.explain("v")
    assert isinstance(explained, str)
    assert shown(explained).startswith("<pre>v: REFRESH AUTO")
