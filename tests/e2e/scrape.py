"""The metrics of a process at /metrics, read by the client library's own parser."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from deploy.local.cluster import DMWorker
from deploy.local.process import WAIT_TIMEOUT


def scraped(address: str) -> str:
    with urlopen(f"http://{address}/metrics", timeout=WAIT_TIMEOUT) as answer:
        return answer.read().decode()  # type: ignore[no-any-return]


def address_of(worker: DMWorker) -> str:
    return f"127.0.0.1:{worker.port}"


class Scrape:
    """The series of a process."""

    def __init__(self, address: str) -> None:
        families = text_string_to_metric_families(scraped(address))
        self.samples = [sample for family in families for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """The sum of all series of that name with these labels."""
        found = [one.value for one in self.samples if _name(one.name) == name and labels.items() <= one.labels.items()]
        assert found, f"no series {name} with {labels}"
        return sum(found)

    def by(self, name: str, label: str) -> Mapping[str, float]:
        return {one.labels[label]: one.value for one in self.samples if _name(one.name) == name}


def _name(parsed: str) -> str:
    """The name as in the text: the parser adds ``_total`` to counters without it."""
    return parsed.removesuffix("_total")
