"""The documentation is built with one command, and every link on it leads somewhere."""

from __future__ import annotations

import importlib.util
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest

pytest.importorskip("markdown_it", reason="needs markdown-it-py")

PROJECT = Path(__file__).parents[1]


def _site() -> ModuleType:
    """``docs/site.py``, which is no part of the package."""
    import sys

    spec = importlib.util.spec_from_file_location("viewlet_site", PROJECT / "docs" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Links(HTMLParser):
    """The addresses that a page names, and the anchors that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            if name == "id" and value:
                self.anchors.add(value)


def _read(path: Path) -> Links:
    links = Links()
    links.feed(path.read_text(encoding="utf-8"))
    return links


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return _site().build(tmp_path_factory.mktemp("site"))


def test_every_link_leads_somewhere(built: list[Path]) -> None:
    read = {path.resolve(): _read(path) for path in built}
    broken = []
    for path, links in read.items():
        for target in links.targets:
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, anchor = unquote(target).partition("#")
            place = (path.parent / name).resolve() if name else path
            if not place.is_file():
                broken.append(f"{path.name}: {target}")
            elif anchor and place in read and anchor not in read[place].anchors:
                broken.append(f"{path.name}: {target} has no such heading")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(built: list[Path]) -> None:
    for path in built:
        text = path.read_text(encoding="utf-8")
        assert "<script" not in text
        assert 'src="http' not in text
        assert "url(" not in text


def test_every_page_can_be_reached(built: list[Path]) -> None:
    read = {path.resolve(): _read(path) for path in built}
    seen: set[Path] = set()
    waiting = [path for path in read if path.name == "index.html" and (path.parent / "docs").is_dir()]
    while waiting:
        path = waiting.pop()
        if path in read and path not in seen:
            seen.add(path)
            names = [target.partition("#")[0] for target in read[path].targets if "://" not in target]
            waiting += [(path.parent / unquote(name)).resolve() for name in names if name]
    assert {path.name for path in read.keys() - seen} == set()


def test_the_reference_has_what_the_contract_names(built: list[Path]) -> None:
    text = next(path for path in built if path.name == "viewlet.html").read_text(encoding="utf-8")
    for name in "connect", "Database.apply", "Database.explain", "Database.sql", "compile", "CompiledProgram":
        assert f">{name}</h" in text, name


def test_navigation_names_pages_that_exist() -> None:
    site = _site()
    known = {page.place for page in site.pages()}
    named = {place for places in site.NAVIGATION.values() for place in places}
    assert named <= known
    assert {place for place in known if place.startswith("docs/guide/")} <= named
