"""Headless Chromium, driven over its DevTools protocol: enough to read, click, type and take pictures."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

PATIENCE = 30.0


def binary() -> str | None:
    """The browser's program, if the machine has one."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Tab:
    """One page. Every error and warning that it logs is kept in ``complaints``."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._sent = 0
        self.complaints: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its result; events on the way are noted."""
        self._sent += 1
        self._socket.send(json.dumps({"id": self._sent, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE))
            if message.get("id") == self._sent:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _note(self, event: dict[str, Any]) -> None:
        match event:
            case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": details}}:
                self.complaints.append(details.get("exception", {}).get("description", details["text"]))
            case {"method": "Log.entryAdded", "params": {"entry": {"level": "error" | "warning"} as entry}}:
                self.complaints.append(f"{entry['text']} {entry.get('url', '')}")
            case {
                "method": "Runtime.consoleAPICalled",
                "params": {"type": "error" | "warning", "args": args},
            }:
                self.complaints.append(str(args))
            case {"method": "Network.requestWillBeSent", "params": {"request": {"url": url}}}:
                self.requests.append(url)

    def open(self, url: str) -> None:
        """Go to an address."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str, seconds: float = PATIENCE) -> None:
        """Until an expression holds."""
        end = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < end, f"waited in vain for {condition}: {self.text('body')[:2000]}"
            time.sleep(0.05)

    def text(self, selector: str) -> str:
        """What an element shows."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        """Click the first such element."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"{found} !== null")
        self.run(f"{found}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")

    def press(self, key: str) -> None:
        """Press a key where the focus is."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def picture(self, path: Path) -> None:
        """Write what is seen as a PNG file."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(program: str, width: int = 1280, height: int = 800) -> Iterator[Tab]:
    """A browser with one empty page and a profile of its own."""
    with tempfile.TemporaryDirectory(prefix="browser", ignore_cleanup_errors=True) as profile:
        flags = ["--headless=new", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0"]
        flags += [f"--user-data-dir={profile}", f"--window-size={width},{height}", "--disable-dev-shm-usage"]
        flags += ["--disable-background-networking", "--disable-extensions", "--disable-component-update"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")  # its sandbox refuses to run as root
        process = subprocess.Popen(
            [program, *flags, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            with ExitStack() as stack:
                address = _page_address(Path(profile) / "DevToolsActivePort")
                tab = Tab(
                    stack.enter_context(connect(address, max_size=None, compression=None, ping_interval=None))
                )
                tab.call(
                    "Emulation.setDeviceMetricsOverride",
                    width=width,
                    height=height,
                    deviceScaleFactor=1,
                    mobile=False,
                )
                yield tab
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


def _page_address(port_file: Path) -> str:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        time.sleep(0.05)
        if port_file.exists() and (lines := port_file.read_text().splitlines()):
            with urllib.request.urlopen(f"http://127.0.0.1:{lines[0]}/json/list") as answer:
                pages = [page for page in json.load(answer) if page["type"] == "page"]
            if pages:
                return str(pages[0]["webSocketDebuggerUrl"])
    raise AssertionError("the browser did not start")
