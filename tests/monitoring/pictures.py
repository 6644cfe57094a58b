"""The pictures of the dashboards in docs/: ``make dashboard-pictures``.

A real cluster under load, a real Prometheus, and each query of a dashboard as Grafana would send it. Grafana's own
components draw the answers (see page/), because no registry of packages has a Grafana. Needs npm, Chromium with its
chromedriver, and eight minutes.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.local.cache import once
from deploy.local.cluster import ROOT, Cluster
from deploy.local.process import HarnessError, binary, up
from deploy.monitoring.dashboards import DASHBOARDS, FOLDER
from tests.harness.commands import run_in
from tests.monitoring.browser import Browser
from tests.monitoring.load import busy_minutes, loaded_task
from tests.monitoring.prometheus import Prometheus
from tests.monitoring.queries import substituted
from tests.monitoring.watched import scrape_config

PAGE = Path(__file__).parent / "page"
PICTURES = ROOT / "docs" / "dashboards"
WIDTH = 1400
#: Seconds between two scrapes; Grafana's $__rate_interval is four of them.
SCRAPE = 5
_HTML = (
    '<!doctype html><meta charset="utf-8"><title>dashboard</title><link rel="stylesheet" href="page.css">'
    '<body><div id="root"></div><script src="dashboard.js"></script><script src="page.js"></script>'
)
_BUNDLE = [
    "--bundle",
    "--minify",
    "--jsx=automatic",
    "--outfile=page.js",
    "--loader:.woff2=dataurl",
    "--loader:.woff=dataurl",
    "--loader:.ttf=empty",
    "--loader:.svg=dataurl",
    "--log-level=error",
]


def main() -> None:
    """Makes all of them anew."""
    page = _page()
    with tempfile.TemporaryDirectory(prefix="dm-pictures-") as folder, Cluster(3, base=Path(folder)) as cluster:
        prometheus = Prometheus(Path(folder), scrape_config(Path(folder), cluster, f"{SCRAPE}s"))
        with up(prometheus):
            began = time.time()
            with loaded_task(cluster) as task:
                busy_minutes(task, lambda what: print(f"pictures: {what}", flush=True))
                dashboards = {one.uid: _dashboard(prometheus, one.uid, began, time.time()) for one in DASHBOARDS}
        draw(page, Path(folder), dashboards)


def draw(page: Path, folder: Path, dashboards: Mapping[str, Mapping[str, Any]]) -> None:
    """Draws dashboards, by name, into :data:`PICTURES`."""
    PICTURES.mkdir(exist_ok=True)
    browser = Browser(folder)
    with up(browser):
        for name, dashboard in dashboards.items():
            shown = folder / name
            shutil.copytree(page, shown)
            (shown / "dashboard.js").write_text(f"window.dashboard = {json.dumps(dashboard)};\n")
            (shown / "index.html").write_text(_HTML)
            picture = browser.picture(shown / "index.html", "#dashboard", "window.missing()")
            (PICTURES / f"{name}.png").write_bytes(picture)
            print(f"pictures: {name}.png, {len(picture) >> 10} KB", flush=True)


def _page() -> Path:
    """The page as a browser takes it; made of npm's packages once per version of it."""
    sources = sorted(PAGE.iterdir())
    version = hashlib.sha256(b"".join(one.read_bytes() for one in sources)).hexdigest()[:12]

    def bundle(folder: Path) -> None:
        for one in sources:
            shutil.copy(one, folder)
        run_in(folder, binary("npm"), "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent")
        run_in(folder, "node_modules/.bin/esbuild", "page.jsx", '--define:process.env.NODE_ENV="production"', *_BUNDLE)
        shutil.rmtree(folder / "node_modules")

    return once(f"dashboard-page-{version}", bundle)


def _dashboard(prometheus: Prometheus, uid: str, began: float, ended: float) -> dict[str, Any]:
    """What the page draws: the panels of the file that Grafana gets, each with its series."""
    shown = json.loads((FOLDER / f"{uid}.json").read_text())
    for panel in shown["panels"]:
        if panel["type"] == "row":
            continue
        panel["series"] = [one for target in panel["targets"] for one in _series(prometheus, target, began, ended)]
        if not panel["series"]:
            raise HarnessError(f"{shown['title']}: the panel {panel['title']} has no series")
    return {
        "title": shown["title"], "panels": shown["panels"], "width": WIDTH,
        "from": int(began * 1000), "to": int(ended * 1000),
    }  # fmt: skip


def _series(prometheus: Prometheus, target: Mapping[str, str], began: float, ended: float) -> list[dict[str, Any]]:
    expr = substituted(target["expr"], f"{4 * SCRAPE}s")
    found = prometheus.ask("query_range", query=expr, start=str(began), end=str(ended), step=f"{SCRAPE}s")["result"]
    return [
        {
            "name": _legend(target["legendFormat"], one["metric"]),
            "times": [int(at * 1000) for at, _ in one["values"]],
            "values": [None if value in ("NaN", "+Inf", "-Inf") else float(value) for _, value in one["values"]],
        }
        for one in found
    ]


def _legend(pattern: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), pattern).strip() or "value"


if __name__ == "__main__":
    main()
