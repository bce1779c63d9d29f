"""The console as a reader meets it, in headless Chromium."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from urllib.parse import quote

import pytest

import viewlet
from viewlet.server import background

pytest.importorskip("uvicorn")

from server.browser import Tab, binary, browser

pytestmark = pytest.mark.xdist_group("console")  # one browser for all

HOSTILE = "<img src=x onerror=\"document.title='owned'\">&amp;"
SCHEMA = f"""
CREATE TABLE bids (price BIGINT, volume BIGINT, broker VARCHAR);
CREATE MATERIALIZED VIEW by_broker AS SELECT broker, sum(volume) AS `{HOSTILE}` FROM bids GROUP BY broker;
CREATE MATERIALIZED VIEW spread AS SELECT max(price) - min(price) AS spread FROM bids;
CREATE TABLE brokers (name VARCHAR, city VARCHAR);
CREATE MATERIALIZED VIEW cities AS SELECT city, sum(volume) AS volume FROM bids
  JOIN brokers ON broker = name GROUP BY city;
CREATE MATERIALIZED VIEW every_price AS SELECT price, count(*) AS n FROM bids GROUP BY price;
"""


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    program = binary()
    if program is None:
        pytest.skip("there is no Chromium on this machine: apt-get install chromium")
    with browser(program) as page:
        yield page


@pytest.fixture
def database(tab: Tab) -> Iterator[viewlet.Database]:
    with viewlet.connect(backend="reference") as db:
        db.execute(SCHEMA)
        db.insert("bids", [(9_000 + i, i, f"b{i % 3}") for i in range(120)] + [(1, None, HOSTILE)])
        with background(db) as url:
            tab.complaints.clear()
            tab.requests.clear()
            tab.open(url)
            tab.wait("document.querySelector('#status').textContent === 'live'")
            tab.wait("document.querySelectorAll('.card').length === 4")
            yield db
            assert tab.complaints == []
            assert {re.match(r"\w+://[^/]+/", request)[0] for request in tab.requests} == {url}  # type: ignore[index]
            tab.open("about:blank")
            tab.complaints.clear()


def cells(tab: Tab) -> list[list[str]]:
    rows: list[list[str]] = tab.run(
        "[...document.querySelectorAll('#view tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    return rows


def shown(tab: Tab, db: viewlet.Database, view: str) -> bool:
    expected = [["NULL" if v is None else str(v) for v in row] for row in db.view(view).rows()]
    return cells(tab) == expected[:50]


def wait_for_rows(tab: Tab, db: viewlet.Database, view: str) -> None:
    end = time.monotonic() + 60
    while not shown(tab, db, view):
        assert time.monotonic() < end, cells(tab)
        time.sleep(0.05)


def test_the_rows_of_a_view_follow_the_database(tab: Tab, database: viewlet.Database) -> None:
    wait_for_rows(tab, database, "by_broker")
    database.insert("bids", [(5, 1_000, "b1"), (5, 2, "newcomer")])
    wait_for_rows(tab, database, "by_broker")
    assert "newcomer" in tab.text("#view")
    database.delete("bids", [(5, 2, "newcomer")])
    wait_for_rows(tab, database, "by_broker")
    tab.click("[data-view=spread]")
    wait_for_rows(tab, database, "spread")
    tab.wait("document.querySelector('[data-view=by_broker]').innerText.includes('rows')")


def test_rows_are_turned_page_by_page(tab: Tab, database: viewlet.Database) -> None:
    tab.click("[data-view=every_price]")
    wait_for_rows(tab, database, "every_price")
    rows = [[str(v) for v in row] for row in database.view("every_price").rows()]
    seen = cells(tab)
    for _ in range(2):
        tab.click("[aria-label='Rows after']")
        tab.wait(f"document.querySelector('#view td').textContent === {json.dumps(rows[len(seen)][0])}")
        seen += cells(tab)
    assert seen == rows
    assert tab.run("document.querySelector(\"[aria-label='Rows after']\").disabled")
    assert "rows 101 to 121 of 121" in tab.text("#view")


def test_names_and_values_are_text_and_never_markup(tab: Tab, database: viewlet.Database) -> None:
    wait_for_rows(tab, database, "by_broker")
    assert [HOSTILE, "NULL"] in cells(tab)
    assert HOSTILE in tab.run("document.querySelector('#view thead').textContent")
    database.insert("bids", [(1, 1, HOSTILE)])
    tab.click("#tab-changes")
    tab.wait("document.querySelectorAll('#changes li').length > 0")
    tab.click("#tab-program")
    tab.wait("document.querySelectorAll('.node').length > 4")
    for number in range(tab.run("document.querySelectorAll('.node').length")):
        tab.run(f"document.querySelectorAll('.node')[{number}].dispatchEvent(new MouseEvent('click'))")
    assert tab.run("document.querySelectorAll('img').length") == 1  # the logo
    assert tab.run("document.title") == "Viewlet console"


def test_the_program_is_drawn_and_explains_itself(tab: Tab, database: viewlet.Database) -> None:
    tab.click("#tab-program")
    tab.wait("document.querySelectorAll('.node').length > 4")
    graph = json.loads(tab.run("fetch('/api/graph').then((answer) => answer.text())"))
    assert tab.run("document.querySelectorAll('.node').length") == len(graph["nodes"])
    assert tab.run("document.querySelectorAll('.edge').length") == len(graph["edges"])
    kept = next(n for n in graph["nodes"] if n["kind"] == "map" and any("slice" in i for i in n["indexes"]))
    tab.click(f"[data-id='{kept['id']}']")
    detail = tab.run("document.querySelector('#detail').textContent")
    for text in [*kept["definitions"], *kept["indexes"], *(step["text"] for step in kept["steps"])]:
        assert text in detail
    tab.run("document.querySelector('.node.view').focus()")
    tab.press("Enter")
    tab.wait("document.querySelector('#detail').innerText.includes('Query')")
    tab.run("document.querySelector('#scope').value = 'relation:spread'")
    tab.run("document.querySelector('#scope').dispatchEvent(new Event('change'))")
    assert 0 < tab.run("document.querySelectorAll('.node').length") < len(graph["nodes"])


def test_boxes_do_not_overlap_and_arrows_point_right(tab: Tab, database: viewlet.Database) -> None:
    tab.click("#tab-program")
    tab.wait("document.querySelectorAll('.node').length > 4")
    boxes = tab.run(
        "[...document.querySelectorAll('.node')].map((n) => { const r = n.getBoundingClientRect();"
        " return [n.dataset.id, r.left, r.top, r.right, r.bottom]; })"
    )
    for i, (_, left, top, right, bottom) in enumerate(boxes):
        for _, left2, top2, right2, bottom2 in boxes[i + 1 :]:
            assert right <= left2 or right2 <= left or bottom <= top2 or bottom2 <= top
    place = {name: (left, right) for name, left, _, right, _ in boxes}
    edges = tab.run("[...document.querySelectorAll('.edge')].map((e) => [e.dataset.from, e.dataset.to])")
    assert edges
    assert all(place[start][1] < place[end][0] for start, end in edges)


LAYOUT = """
import("/static/layout.js").then(({ layout }) => {
  const ids = [...Array(%d).keys()].map(String);
  let seed = 7; const random = () => (seed = (seed * 16807) %% 2147483647) / 2147483647;
  const any = () => ids[Math.floor(random() * ids.length)];
  const edges = ids.map(() => [any(), any()]).filter(([a, b]) => a !== b);
  const began = performance.now();
  const drawn = layout(ids.map((id) => ({ id, width: 80, height: 40 })), edges);
  const boxes = [...drawn.places.values()].map(({ x, y }) => [x, y]);
  return { boxes, paths: drawn.paths.length, edges: edges.length, ms: performance.now() - began };
})
"""


@pytest.mark.parametrize("nodes", [1, 2, 60, 600])
def test_any_graph_is_laid_out_without_overlap(tab: Tab, database: viewlet.Database, nodes: int) -> None:
    """Random graphs, cycles and all."""
    drawn = tab.run(LAYOUT % nodes)
    assert drawn["paths"] == drawn["edges"]
    boxes = sorted(tuple(box) for box in drawn["boxes"])
    assert len(boxes) == nodes
    for (x, y), (x2, y2) in pairwise(boxes):
        assert x2 >= x + 80 or y2 >= y + 40
    assert drawn["ms"] < 5_000


def test_a_large_program_is_drawn_for_the_view_in_sight(tab: Tab) -> None:
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE bids (price BIGINT, volume BIGINT, broker VARCHAR)")
        for number in range(31):
            query = f"SELECT broker, sum(volume) AS s FROM bids WHERE price > {number} GROUP BY broker"
            db.execute(f"CREATE MATERIALIZED VIEW above_{number} AS {query}")
        with background(db) as url:
            tab.open(url)
            tab.wait("document.querySelectorAll('.card').length === 31")
            tab.click("[data-view=above_7]")
            tab.click("#tab-program")
            tab.wait("document.querySelectorAll('.node').length > 2")
            names = tab.run("[...document.querySelectorAll('.node.view')].map((n) => n.dataset.id)")
            assert names == ["relation:above_7"]
            tab.run("document.querySelector('#scope').value = ''")
            tab.run("document.querySelector('#scope').dispatchEvent(new Event('change'))")
            assert tab.run("document.querySelectorAll('.node.view').length") == 31
            tab.click("#tab-views")
            tab.click("#tab-program")
            tab.wait("document.querySelectorAll('.node.view').length === 31")
            tab.open("about:blank")
    assert tab.complaints == []


def test_an_empty_database_says_how_it_is_filled(tab: Tab) -> None:
    with viewlet.connect(backend="reference") as db, background(db) as url:
        tab.open(url)
        tab.wait("document.querySelector('#view').innerText.includes('CREATE TABLE')")
        assert "There is no view yet" in tab.text("#cards")
        tab.click("#tab-program")
        tab.wait("document.querySelector('#graph').innerText.includes('nothing to draw')")
        db.execute(SCHEMA)
        tab.wait("document.querySelectorAll('.node').length > 4")
        tab.click("#tab-views")
        tab.wait("document.querySelector('#view').innerText.includes('no rows')")
        assert "CREATE TABLE" not in tab.text("#view")
        tab.open("about:blank")
    assert tab.complaints == []


def test_explain_shows_the_program_or_the_reason(tab: Tab, database: viewlet.Database) -> None:
    tab.click("#tab-explain")
    sql = "SELECT volume, count(*) AS n FROM bids GROUP BY volume"
    for text, answer in [(sql, "incremental on every change"), ("SELECT x FROM nowhere", "nowhere")]:
        tab.run(f"document.querySelector('#sql').value = {json.dumps(text)}")
        tab.run("document.querySelector('#explain').requestSubmit()")
        tab.wait(f"document.querySelector('#explanation').textContent.includes({json.dumps(answer)})")
    assert tab.run("document.querySelector('#explanation').classList.contains('problem')")
    assert tab.run("getComputedStyle(document.querySelector('#explanation')).whiteSpace") == "pre-wrap"
    tab.complaints[:] = [line for line in tab.complaints if "status of 400" not in line]


def test_a_table_can_be_looked_at_too(tab: Tab, database: viewlet.Database) -> None:
    tab.click("button[data-view=brokers]")
    tab.wait("document.querySelector('#view').innerText.includes('no rows')")
    database.insert("brokers", [("b1", "Oslo")])
    tab.wait("document.querySelector('#view').innerText.includes('Oslo')")
    assert tab.run("document.querySelector('#how')") is None


def test_a_view_leads_to_how_it_is_kept(tab: Tab, database: viewlet.Database) -> None:
    tab.click("[data-view=cities]")
    wait_for_rows(tab, database, "cities")
    tab.click("#how")
    tab.wait("document.querySelector('#explanation').textContent.startsWith('cities: REFRESH AUTO')")
    assert tab.run("document.querySelector('#explanation').textContent") == database.explain("cities")
    assert not tab.run("document.querySelector('#panel-explain').hidden")


def test_the_page_works_with_a_token_and_not_without(tab: Tab) -> None:
    token = "a secret of this test & +"
    with viewlet.connect(backend="reference") as db, background(db, token=token) as url:
        db.execute(SCHEMA)
        tab.open(url)
        assert "a token is needed" in tab.text("body")
        tab.open(f"{url}?token={quote(token)}")
        tab.wait("document.querySelector('#status').textContent === 'live'")
        tab.wait("document.querySelectorAll('.card').length === 4")
        assert tab.run("location.href") == url + "#views"
        assert tab.run("document.cookie") == ""
        tab.open("about:blank")
    tab.complaints.clear()


def test_changes_of_watched_views_appear(tab: Tab, database: viewlet.Database) -> None:
    tab.click("#tab-changes")
    tab.click("input[value=spread]")
    tab.wait("document.querySelector('#watched').dataset.watching?.includes('spread')")
    database.insert("bids", [(1_000_000, 1, "b0")])
    tab.wait("document.querySelector('#changes').innerText.includes('spread')")
    assert "+1 −1 in 1 commit" in tab.text("#changes")
    assert str(1_000_000 - 1) in tab.run("document.querySelector('#changes').textContent")


def test_tabs_follow_the_arrow_keys(tab: Tab, database: viewlet.Database) -> None:
    tab.run("document.querySelector('#tab-views').focus()")
    for panel in ["program", "changes", "explain", "views"]:
        tab.press("ArrowRight")
        tab.wait(f"!document.querySelector('#panel-{panel}').hidden")
        assert tab.run("document.querySelectorAll('[role=tabpanel]:not([hidden])').length") == 1
        assert tab.run("document.activeElement.id") == f"tab-{panel}"


def test_every_control_has_a_name(tab: Tab, database: viewlet.Database) -> None:
    for panel in ["views", "program", "changes", "explain"]:
        tab.click(f"#tab-{panel}")
        time.sleep(0.3)
        tree = tab.call("Accessibility.getFullAXTree")["nodes"]
        controls = [
            n for n in tree if n["role"]["value"] in ("button", "tab", "textbox", "combobox", "checkbox")
        ]
        assert controls
        assert [n for n in controls if not n.get("ignored") and not n["name"]["value"]] == []


CONTRAST = """
(() => {
  const style = getComputedStyle(document.documentElement);
  const light = (name) => {
    const hex = style.getPropertyValue(name).trim().replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3");
    const linear = (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const part = (i) => linear(parseInt(hex.slice(i, i + 2), 16) / 255);
    return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  return ["--text", "--quiet", "--good", "--bad", "--accent", "--table", "--map", "--view"]
    .flatMap((ink) => ["--ground", "--surface", "--raised"].map((paper) => [ink, paper, ratio(ink, paper)]))
    .concat([["--on-accent", "--accent", ratio("--on-accent", "--accent")]]);
})()
"""


def test_both_themes_have_enough_contrast(tab: Tab, database: viewlet.Database) -> None:
    """At least 4.5, as WCAG AA asks for text."""
    grounds = set()
    for _ in range(2):
        tab.click("#theme")
        grounds.add(tab.run("getComputedStyle(document.body).backgroundColor"))
        assert [pair for pair in tab.run(CONTRAST) if pair[2] < 4.5] == []
    assert len(grounds) == 2


def test_numbers_stand_to_the_right_whatever_their_type(tab: Tab, database: viewlet.Database) -> None:
    database.execute("CREATE TABLE bills (zip VARCHAR, amount DECIMAL(10,2), large BIGINT, share DOUBLE)")
    database.insert("bills", [("8001", Decimal("2.50"), 2**60, 0.5), ("8002", None, None, None)])
    tab.wait("document.querySelector('[data-view=bills]') !== null")
    tab.click("[data-view=bills]")
    tab.wait("document.querySelectorAll('#view tbody tr').length === 2")
    aligned = tab.run(
        "[...document.querySelectorAll('#view tbody td')].map((cell) => getComputedStyle(cell).textAlign)"
    )
    assert aligned == ["start", "right", "right", "right"] * 2


@pytest.mark.parametrize("width", [360, 390, 800, 1280])
def test_nothing_is_cut_off_or_broken_at_any_width(tab: Tab, database: viewlet.Database, width: int) -> None:
    """Buttons and figures keep to one line, also those of a million rows; nothing lies beside the page."""
    wait_for_rows(tab, database, "by_broker")
    tab.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    try:
        tab.run("document.querySelector('.figures span').lastChild.data = '1,000,000'")
        high = tab.run(
            "[...document.querySelectorAll('#how, .figures span, .turn button, header dd, .tabs button')]"
            ".filter((e) => e.getBoundingClientRect().height"
            " > 1.95 * parseFloat(getComputedStyle(e).lineHeight)).map((e) => e.innerText)"
        )
        assert high == []
        for part in ("views", "program", "changes", "explain"):
            tab.click(f"#tab-{part}")
            outside = tab.run(
                "[...document.querySelectorAll('button, select, label, .legend li, .figures span, #status')]"
                ".filter((e) => e.offsetParent && e.getBoundingClientRect().right > innerWidth)"
                ".map((e) => e.innerText)"
            )
            assert outside == [], part
    finally:
        tab.call("Emulation.clearDeviceMetricsOverride")


def test_a_lost_connection_is_shown_and_taken_up_again(tab: Tab) -> None:
    with viewlet.connect(backend="reference") as db:
        with background(db) as url:
            port = int(url.rstrip("/").rpartition(":")[2])
            tab.open(url)
            tab.wait("document.querySelector('#status').textContent === 'live'")
        tab.wait("document.querySelector('#status').textContent.startsWith('disconnected')")
        with background(db, port=port):
            tab.wait("document.querySelector('#status').textContent === 'live'")
            tab.open("about:blank")
    tab.complaints.clear()


def test_a_burst_leaves_the_page_usable(tab: Tab, database: viewlet.Database) -> None:
    _burst(tab, database, 5_000)


@pytest.mark.slow
def test_a_million_rows_and_a_burst_of_a_million_changes(tab: Tab) -> None:
    with viewlet.connect() as db:
        db.execute(SCHEMA)
        db.insert("bids", [(1, 1, "x")])
        with background(db) as url:
            tab.open(url)
            _burst(tab, db, 1_000_000)
        tab.open("about:blank")


def _burst(tab: Tab, db: viewlet.Database, size: int) -> None:
    """So many rows in one commit, then as many deletions, while the page shows the view."""
    tab.click("[data-view=every_price]")
    tab.wait("document.querySelector('#watched').dataset.watching?.includes('every_price')")
    before = len(db.view("every_price"))
    rows = [(10_000_000 + i, 1, "x") for i in range(size)]
    for change, total in [(db.insert, before + size), (db.delete, before)]:
        change("bids", rows)
        tab.wait(f"document.querySelector('#view').innerText.includes('of {total:,}')", seconds=600)
        began = time.monotonic()
        assert tab.run("document.querySelectorAll('#view tbody tr').length") <= 50
        assert time.monotonic() - began < 5, "the page answers at once"
    assert tab.run("document.querySelectorAll('#changes tr').length") < 20_000
