"""Hazards: a value of another time zone that no dump notices, and one that counts as such though UTC gives it, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dm_worker.dumper.folder import DumpWorkFolder, Manifest, read_manifest
from dm_worker.dumper.metadata import DumpMetadata
from dm_worker.dumper.session_values import otherwise_computed
from pkg.mysql.schema import Column, TableInfo

TS = Column("ts", "timestamp", "timestamp(3)")


def found(kind: str, column_type: str, expression: str, generated: str = "STORED") -> list[tuple[str, str]]:
    table = TableInfo("d", "t", (TS, Column("g", kind, column_type, generated=generated)))  # type: ignore[arg-type]
    return list(otherwise_computed(replace(table, expressions=(("g", expression),))))


@pytest.mark.parametrize(
    ("kind", "column_type", "cast"),
    [
        ("date", "date", "DATE"),
        ("datetime", "datetime(3)", "DATETIME(3)"),
        ("timestamp", "timestamp", "DATETIME"),
        ("int", "int(11)", "SIGNED"),
        ("bigint", "bigint(20) unsigned", "UNSIGNED"),
        ("decimal", "decimal(12,4)", "DECIMAL(12,4)"),
        ("varchar", "varchar(9)", "CHAR"),
    ],
)
def test_a_value_is_compared_as_the_column_stores_it(kind: str, column_type: str, cast: str) -> None:
    assert found(kind, column_type, "hour(`ts`)") == [("g", f"NOT (`g` <=> CAST(hour(`ts`) AS {cast}))")]


@pytest.mark.parametrize(
    ("kind", "expression", "generated"),
    [("int", "hour(`ts`)", "VIRTUAL"), ("int", "unix_timestamp(`ts`)", "STORED"), ("double", "hour(`ts`)", "STORED")],
    ids=["not stored", "of no zone", "a type without a cast"],
)
def test_others_are_not_asked_for(kind: str, expression: str, generated: str) -> None:
    assert found(kind, kind, expression, generated) == []


def test_the_loader_reads_what_the_dump_found(tmp_path: Path) -> None:
    work = DumpWorkFolder(tmp_path, "a")
    work.create()
    manifest = Manifest("f", 1, 2, {}, [("d", "t", "g")])
    work.publish(manifest, DumpMetadata(None))
    assert read_manifest(tmp_path) == replace(manifest, otherwise=(("d", "t", "g"),))
