"""A headless Chromium, driven by its own chromedriver over WebDriver's HTTP interface."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from deploy.local.process import Process, binary, free_port, wait_until

_ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1"]


class Browser(Process):
    """Runs until it is stopped; one page at a time."""

    name = "chromedriver"

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.port = free_port()

    def command(self) -> Sequence[str]:
        return [binary("chromedriver"), f"--port={self.port}"]

    def ready(self) -> bool:
        try:
            return bool(self._ask("GET", "status")["ready"])
        except OSError:
            return False

    def picture(self, page: Path, whole: str, missing: str) -> bytes:
        """The element ``whole`` (a CSS selector) of a page of the disk as PNG, once the expression ``missing`` gives ""
        there; else it says what is not drawn."""
        options = {"binary": binary("chromium"), "args": _ARGUMENTS}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        session = f"session/{self._ask('POST', 'session', wanted)['sessionId']}"

        def value(expression: str) -> Any:
            return self._ask("POST", f"{session}/execute/sync", {"script": f"return {expression}", "args": []})

        def devtools(command: str, **parameters: Any) -> Any:
            return self._ask("POST", f"{session}/goog/cdp/execute", {"cmd": command, "params": parameters})

        try:
            self._ask("POST", f"{session}/url", {"url": page.as_uri()})
            wait_until(lambda: value(missing) == "", lambda: f"{page.name}: without {value(missing)}", 60)
            box = value(f"document.querySelector({json.dumps(whole)}).getBoundingClientRect().toJSON()")
            clip = {**{name: box[name] for name in ("x", "y", "width", "height")}, "scale": 1}
            shot = devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
            return base64.b64decode(shot["data"])
        finally:
            self._ask("DELETE", session)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"http://127.0.0.1:{self.port}/{path}", data, method=method), timeout=60) as answer:
            return json.load(answer)["value"]
