"""Hazard: the operator's Java options contradict ours, so that the JVM does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm_worker.engine.jvm import _with_java_options


@pytest.mark.parametrize("given_options", ["", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4 -Dx=y", "-XX:-UseParallelGC"])
def test_the_operators_java_options_do_not_meet_ours(tmp_path: Path, given_options: str) -> None:
    key = "spark.driver.extraJavaOptions"
    words = _with_java_options({key: given_options}, tmp_path)[key].split()
    assert set(given_options.split()) <= set(words)
    assert sum("GC" in word for word in words) == 1
    assert sum("TieredStopAtLevel" in word for word in words) == 1


@pytest.mark.parametrize(
    ("given_options", "first", "shrinks"),
    [
        ("", True, True),
        ("-Xms300m", False, True),
        ("-Xmn100m", False, True),
        ("-XX:MaxHeapFreeRatio=70", True, False),
        ("-XX:InitialHeapSize=99m -XX:+ShrinkHeapInSteps", False, False),
    ],
)
def test_the_heap_begins_small_and_shrinks_unless_the_operator_says_otherwise(
    tmp_path: Path, given_options: str, first: bool, shrinks: bool
) -> None:
    key = "spark.driver.extraJavaOptions"
    words = _with_java_options({key: given_options}, tmp_path)[key].split()
    assert ("-Xms96m" in words) is first
    assert ("-XX:MaxHeapFreeRatio=40" in words) is shrinks
    assert ("-XX:-ShrinkHeapInSteps" in words) is shrinks


@pytest.mark.parametrize(
    ("given_options", "used"), [("-Dx=y", True), ("-Xshare:off", False), ("-XX:SharedArchiveFile=/own.jsa", False)]
)
def test_the_class_archive_is_used_where_it_is_and_the_operator_says_nothing_else(
    tmp_path: Path, given_options: str, used: bool
) -> None:
    key, archive = "spark.driver.extraJavaOptions", tmp_path / "a folder" / "spark-classes.jsa"
    option = f'"-XX:SharedArchiveFile={archive}"'
    assert option not in _with_java_options({key: given_options}, tmp_path, archive)[key]
    archive.parent.mkdir()
    archive.touch()
    assert (option in _with_java_options({key: given_options}, tmp_path, archive)[key]) is used
