"""Makes the pictures of the console in this guide: a live order book, seen in headless Chromium."""

from __future__ import annotations

import random
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import viewlet
from server.browser import Tab, binary, browser
from viewlet.demo.scenes import order_book_scene
from viewlet.server import background


def trade(db: viewlet.Database, stop: threading.Event) -> None:
    """Orders come and go, a hundred times a second."""
    chance = random.Random(1)
    bids: list[tuple[int, ...]] = []
    for number in range(10**9):
        if stop.wait(0.01):
            return
        bid, ask = 10_000 - int(chance.expovariate(0.1)), 10_010 + int(chance.expovariate(0.1))
        orders = [
            (number, number, chance.randrange(10), chance.randrange(1, 200), price) for price in (bid, ask)
        ]
        bids.append(orders[0])
        gone = [bids.pop(chance.randrange(len(bids)))] if len(bids) > 300 else []
        changes = [(*order, 1) for order in orders[:1]] + [(*order, -1) for order in gone]
        names = ("t", "id", "broker_id", "volume", "price", "_weight")
        db.apply({"bids": [dict(zip(names, change, strict=True)) for change in changes], "asks": orders[1:]})


def take(tab: Tab, url: str, folder: Path) -> None:
    """Two pictures: the rows of a view in the light, the program in the dark."""
    tab.open(url)
    tab.wait("document.querySelector('#status').textContent === 'live'")
    tab.click("[data-view=depth]")
    time.sleep(15)
    tab.picture(folder / "console_views.png")
    tab.click("#theme")
    tab.click("#tab-program")
    tab.click(".node.map[data-id$=':vwap']")
    tab.picture(folder / "console_program.png")


def main() -> None:
    """Write the pictures beside this file."""
    program = binary()
    if program is None:
        raise SystemExit("there is no Chromium on this machine")
    scene, stop = order_book_scene(), threading.Event()
    with viewlet.connect() as db:
        db.execute(scene.schema)
        for name, query in scene.views.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        db.execute("CREATE MATERIALIZED VIEW spread AS SELECT lowest_ask - highest_bid AS spread FROM top")
        trader = threading.Thread(target=trade, args=(db, stop))
        trader.start()
        try:
            with background(db) as url, browser(program, 1200, 720) as tab:
                take(tab, url, Path(__file__).parent)
        finally:
            stop.set()
            trader.join()


if __name__ == "__main__":
    main()
