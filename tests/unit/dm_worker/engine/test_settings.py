"""Hazard: spark starts with settings that take more of a cluster than allowed, or that belong to another machine."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dm_worker.engine.settings import as_properties, is_local, spark_settings


def settings(master: str, **conf: str) -> dict[str, str]:
    return spark_settings(master=master, slots=7, folder=Path("/f"), paths="/p", kernel="", conf=conf)


def test_a_worker_takes_no_more_of_a_standalone_cluster_than_its_slots() -> None:
    assert settings("spark://h:7077")["spark.cores.max"] == "7"
    assert settings("spark://h:7077", **{"spark.cores.max": "3"})["spark.cores.max"] == "3"
    assert "spark.cores.max" not in settings("yarn")
    assert "spark.cores.max" not in settings("k8s://https://h:443")


def test_a_cluster_is_not_told_to_use_loopback_or_paths_of_this_machine() -> None:
    local = {"spark.driver.host", "spark.driver.bindAddress", "spark.executorEnv.PYTHONPATH"}
    local |= {"spark.python.daemon.module"}
    assert local <= settings("local[2,4]").keys()
    for master in ("spark://h:7077", "local-cluster[2,1,1024]", "yarn"):
        assert not is_local(master)
        assert not local & settings(master).keys()


def test_the_choice_of_kernel_reaches_executors() -> None:
    chosen = spark_settings(master="yarn", slots=1, folder=Path("/f"), paths="", kernel="python", conf={})
    assert chosen["spark.executorEnv.DM_KERNEL"] == "python"
    assert "spark.executorEnv.DM_KERNEL" not in settings("yarn")


@given(st.dictionaries(st.text("abc. :=#!\\", min_size=1).map(str.strip).filter(bool), st.text("xyz =:#\\\n\t!é")))
def test_properties_survive_their_file(values: dict[str, str]) -> None:
    assert _parse(as_properties(values)) == values


def _parse(text: str) -> dict[str, str]:
    """Java's rules for a properties file, as far as they matter here."""
    found = {}
    for line in filter(None, text.split("\n")):
        key, at = "", 0
        while at < len(line) and line[at] not in " :=":
            step = 2 if line[at] == "\\" else 1
            key, at = key + _plain(line[at : at + step]), at + step
        rest, value, at = line[at:].lstrip(" "), "", 0
        while at < len(rest):
            step = 2 if rest[at] == "\\" else 1
            value, at = value + _plain(rest[at : at + step]), at + step
        found[key] = value
    return found


def _plain(text: str) -> str:
    return {"\\n": "\n", "\\t": "\t", "\\r": "\r"}.get(text, text[-1])
