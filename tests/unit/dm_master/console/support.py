"""A console over a canned cluster, asked without a server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from dm_master.console.app import add_console
from pkg.process.metrics import Metrics
from pkg.rpc.server import HttpRoutes
from pkg.settings.password_hash import user_line
from tests.harness.canned_cluster import CannedCluster
from tests.unit.asgi import AsgiAnswer, ask

USER, PASSWORD = "anna", "correct horse"
#: Scrypt takes a moment: all tests share a hash.
LINE = user_line(USER, PASSWORD)
FORM = "application/x-www-form-urlencoded"


class ConsoleBrowser:
    """Keeps a session's cookie, as a browser does. ``client`` is its address."""

    def __init__(self, cluster: CannedCluster, users: Path | None, client: str = "127.0.0.1") -> None:
        routes = HttpRoutes(status=lambda: "", metrics=Metrics(), ready=lambda: True, hosts=["dm.example"])
        add_console(routes, cluster.call, str(users) if users else "", lambda: None)
        self.app = routes.app
        self.client = client
        self.cookie = ""

    def get(self, page: str, headers: Mapping[str, str] = {}, /, **query: str) -> AsgiAnswer:
        return ask(
            self.app,
            "GET",
            f"/console/{page}",
            query=urlencode(query),
            headers={**self._headers(), **headers},
            client=self.client,
        )

    def post(self, page: str, headers: Mapping[str, str] = {}, /, **fields: str) -> AsgiAnswer:
        answer = ask(
            self.app,
            "POST",
            f"/console/{page}",
            headers={"content-type": FORM, **self._headers(), **headers},
            body=urlencode(fields).encode(),
            client=self.client,
        )
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def log_in(self, password: str = PASSWORD) -> AsgiAnswer:
        return self.post("login", user=USER, password=password)

    def token(self) -> str:
        """The token in a page for this visitor."""
        found = re.search(r'name="token" value="([^"]*)"', self.get("add-source").body.decode())
        return found[1] if found else ""

    def _headers(self) -> dict[str, str]:
        return {"cookie": self.cookie} if self.cookie else {}
