"""The documentation as a web site of plain files: ``python docs/site.py [FOLDER]``, build/site by default.

Markdown pages become HTML in the same folders, so that their links stay what they are; files that they link
to are copied; the reference is made from docstrings. Nothing on a page comes from elsewhere.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

PROJECT = Path(__file__).parents[1]

GUIDES = (
    *("sql", "command_line", "clients", "connectors", "durability", "operations"),
    *("spark", "sketches", "linalg", "signals", "cookbook"),
)

NAVIGATION = {
    "Start": ("README.md", "docs/tutorial.md", "docs/questions.md", "docs/comparison.md"),
    "Guides": tuple(f"docs/guide/{name}.md" for name in GUIDES),
    "Inside": (
        "docs/how_it_works.md",
        "docs/how_vwap_is_maintained.md",
        "docs/what_is_incremental.md",
        "docs/security.md",
        "ARCHITECTURE.md",
        "docs/decisions/index.md",
        "CONTRIBUTING.md",
    ),
    "Reference": ("docs/reference/index.md",),
}

MODULES = {
    "viewlet": ("connect", "Database", "compile", "CompiledProgram"),
    "viewlet.handles": ("TableHandle", "View"),
    "viewlet.subscriptions": ("Subscription",),
    "viewlet.aio": (),
    "viewlet.errors": (),
    "viewlet.dbapi": (),
    "viewlet.pgwire": (),
    "viewlet.server": (),
    "viewlet.connectors": (),
    "viewlet.sketches": (),
    "viewlet.linalg": (),
    "viewlet.signals": (),
}
"""What the reference covers; without names, all that a module makes public."""

INSIDE = (
    *("attach", "define", "replay", "snapshot", "restore_rows", "restore_version", "restore_view"),
    *("change_row", "row_gate", "value_gate", "ordered", "unordered", "programs"),
)
"""Methods of the database that are called from other parts of the package: the reference leaves them out."""

STYLE = (PROJECT / "docs" / "site.css").read_text(encoding="utf-8")


BETWEEN = re.compile(r", (?=\*|\w+[:=])")
EXAMPLE = re.compile(r"((?:^(?:>>>|\.\.\.) ?.*\n?(?:^(?!>>>|\.\.\.)\S.*\n?)*)+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """A page by its place in the project, as Markdown."""

    place: str
    text: str

    @property
    def title(self) -> str:
        """The first heading."""
        found = re.search(r"^# (.+)$", self.text, re.MULTILINE)
        return found[1] if found else self.place

    @property
    def address(self) -> str:
        """Where its HTML stands: next to where the Markdown stood."""
        return "index.html" if self.place == "README.md" else self.place.removesuffix(".md") + ".html"


def pages() -> list[Page]:
    """Every page: those of the project, the list of decisions, and the reference."""
    written = [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")]
    found = [Page(p.relative_to(PROJECT).as_posix(), p.read_text(encoding="utf-8")) for p in sorted(written)]
    decisions = [page for page in found if page.place.startswith("docs/decisions/")]
    listed = "".join(f"- [{page.title}]({page.place.rpartition('/')[2]})\n" for page in decisions)
    return [*found, Page("docs/decisions/index.md", f"# Decisions\n\n{listed}"), *reference()]


# The reference.


def reference() -> Iterator[Page]:
    """A page per module, and a list of them."""
    listed = []
    for name, chosen in MODULES.items():
        module = importlib.import_module(name)
        summary = (inspect.getdoc(module) or "").partition("\n")[0]
        listed.append(f"- [`{name}`]({name}.md): {summary}")
        yield Page(f"docs/reference/{name}.md", "\n".join(_module(module, chosen)))
    yield Page("docs/reference/index.md", "# Reference\n\nFrom the docstrings.\n\n" + "\n".join(listed))


def _module(module: ModuleType, chosen: tuple[str, ...]) -> Iterator[str]:
    yield f"# {module.__name__}\n"
    yield _prose(inspect.getdoc(module) or "")
    for name in chosen or _public(module):
        thing = getattr(module, name)
        if inspect.isclass(thing):
            yield from _class(name, thing)
        elif callable(thing):
            yield f"\n## {name}\n\n```python\n{name}{_signature(thing)}\n```\n"
            yield _prose(inspect.getdoc(thing) or "")


def _public(module: ModuleType) -> list[str]:
    """The names in ``__all__``, else those that the module defines itself."""
    if names := getattr(module, "__all__", None):
        return [name for name in names if not inspect.ismodule(getattr(module, name))]
    own = {name: thing for name, thing in vars(module).items() if not name.startswith("_")}
    return [name for name, thing in own.items() if getattr(thing, "__module__", None) == module.__name__]


def _class(name: str, thing: type) -> Iterator[str]:
    yield f"\n## {name}\n"
    yield _prose(inspect.getdoc(thing) or "")
    for member, value in inspect.getmembers(thing):
        documented = inspect.isfunction(value) or isinstance(value, property)
        hidden = member.startswith("_") or (name == "Database" and member in INSIDE)
        if documented and not hidden and (text := inspect.getdoc(value)):
            head = member if isinstance(value, property) else f"{member}{_signature(value)}"
            yield f"\n### {name}.{member}\n\n```python\n{head}\n```\n"
            yield _prose(text)


class _Bare(str):
    """An annotation that is shown as it was written, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _bare(annotation: Any) -> Any:
    return _Bare(annotation) if isinstance(annotation, str) else annotation


def _signature(thing: Any) -> str:
    """The parameters without ``self``; long lists of them stand below each other."""
    try:
        written = inspect.signature(thing)
    except ValueError:
        return "(...)"
    parameters = [
        p.replace(annotation=_bare(p.annotation)) for p in written.parameters.values() if p.name != "self"
    ]
    text = str(inspect.Signature(parameters, return_annotation=_bare(written.return_annotation)))
    if len(text) < 90:
        return text
    inside, _, after = text[1:].rpartition(")")
    separate = BETWEEN.sub(",\n    ", inside)
    return f"(\n    {separate},\n){after}"


def _prose(docstring: str) -> str:
    """A docstring as Markdown: marks for code are doubled backquotes, examples stand by themselves."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", docstring).replace("``", "`")
    return EXAMPLE.sub(r"\n```python\n\1\n```\n", text)


# From Markdown to HTML.


def build(folder: Path) -> list[Path]:
    """Write the site into a folder, which is emptied first; returns its pages."""
    shutil.rmtree(folder, ignore_errors=True)
    everything = pages()
    known = {page.place: page for page in everything}
    written = []
    for page in everything:
        target = folder / page.address
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_document(page, known, folder), encoding="utf-8")
        written.append(target)
    return written


def _document(page: Page, known: dict[str, Page], folder: Path) -> str:
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = markdown.parse(page.text)
    _name_headings(tokens)
    for token in tokens:
        if token.type == "fence":
            token.content = token.content.rstrip() + "\n"  # an example ends with a blank line for doctest
        for child in token.children or ():
            for attribute in ("href", "src"):
                if target := child.attrGet(attribute):
                    child.attrSet(attribute, _relinked(str(target), page, known, folder))
    body = markdown.renderer.render(tokens, markdown.options, {})
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(page.title)} · Viewlet</title><style>{STYLE}</style>"
    )
    return (
        f"<!doctype html>\n<html lang=en><head>{head}</head>\n<body>{_navigation(page, known)}"
        f'<main><a class="menu" href="#pages">All pages</a>\n{body}</main></body></html>\n'
    )


def _navigation(page: Page, known: dict[str, Page]) -> str:
    parts = []
    for section, places in NAVIGATION.items():
        items = []
        for target in (known[place] for place in places if place in known):
            here = " aria-current=page" if target.place == page.place else ""
            way = _way(page.address, target.address)
            items.append(f'<li><a{here} href="{way}">{escape(target.title)}</a>')
        parts.append(f"<b>{section}</b><ul>{''.join(items)}</ul>")
    return f'<nav id="pages">{"".join(parts)}</nav>'


def _name_headings(tokens: list[Token]) -> None:
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", slug(inline.content))


def slug(heading: str) -> str:
    """The name of a heading in addresses, as code hosts make it.

    >>> slug("What is `incremental`, and why?")
    'what-is-incremental-and-why'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _relinked(target: str, page: Page, known: dict[str, Page], folder: Path) -> str:
    """Where a link of a page leads on the site; a file that is no page comes along."""
    if "://" in target or target.startswith(("#", "mailto:")):
        return target
    name, mark, anchor = target.partition("#")
    place = _normal(PurePosixPath(page.place).parent / name)
    if f"{place}/index.md" in known:
        place = f"{place}/index.md"
    if place in known:
        return _way(page.address, known[place].address) + mark + anchor
    source = PROJECT / place
    if source.is_dir():
        return _way(page.address, _listing(place, folder)) + mark + anchor
    copied = folder / place
    copied.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, copied)
    return _way(page.address, place) + mark + anchor


def _listing(place: str, folder: Path) -> str:
    """A page with the names in a folder of the project."""
    address = f"{place}/index.html"
    names = "".join(f"<li>{escape(path.name)}" for path in sorted((PROJECT / place).iterdir()))
    (folder / place).mkdir(parents=True, exist_ok=True)
    (folder / address).write_text(f"<!doctype html><title>{place}</title><ul>{names}</ul>", encoding="utf-8")
    return address


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _way(start: str, end: str) -> str:
    """The relative address of one file as seen from another.

    >>> _way("docs/guide/sql.html", "docs/security.html")
    '../security.html'
    """
    here, there = start.split("/")[:-1], end.split("/")
    while here and len(there) > 1 and here[0] == there[0]:
        here, there = here[1:], there[1:]
    return "../" * len(here) + "/".join(there)


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT / "build" / "site"
    print(f"{len(build(chosen))} pages in {chosen}: open {chosen / 'index.html'}")
