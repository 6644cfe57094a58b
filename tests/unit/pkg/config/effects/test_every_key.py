"""Hazard: a key of a configuration file is read and does nothing, without a message.

Each key of the samples and of the readers gets another value than its default. Then the configuration differs and the
module that the table names reads the field, or a warning names the key, or an error does.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pkg.config import master, worker
from pkg.config.effects.diff_keys import DIFF_EFFECTS
from pkg.config.effects.effect import KeyEffect
from pkg.config.effects.page import page
from pkg.config.effects.sample import sample
from pkg.config.effects.source_keys import SOURCE_EFFECTS
from pkg.config.effects.task_keys import TASK_EFFECTS
from pkg.config.keys import DIFF, SOURCE, TASK
from pkg.config.master import MASTER_EFFECTS
from pkg.config.source import load_source
from pkg.config.task import load_task
from pkg.config.worker import WORKER_EFFECTS
from pkg.errors import DMError
from pkg.settings.options import Option, usage
from pkg.settings.shape import Free, Items, Leaf, Named, Shape
from tests.unit.pkg.config.effects.other_values import FIELDS, PROGRAM_ALONG, PROGRAM_VALUES, SOURCE_VALUES, TASK_VALUES

ROOT = Path(__file__).resolve().parents[5]
CONFIGS = ROOT / "configs"


def _leaves(shape: Shape, path: str = "") -> Iterator[str]:
    if isinstance(shape, Leaf | Free):
        yield path
    elif isinstance(shape, Named):
        yield from _leaves(shape.shape, f"{path}.*")
    elif isinstance(shape, Items):
        yield from _leaves(shape.shape, f"{path}[]")
    else:
        for key, inner in shape.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key)


def _rows(shape: Mapping[str, Shape]) -> set[str]:
    """The paths of a file's keys. A unit's block in an instance is one row: its keys are those of the named block."""
    inline = tuple(f"mysql-instances[].{unit}" for unit in ("mydumper", "loader", "syncer"))
    return {next((unit for unit in inline if path.startswith(f"{unit}.")), path) for path in _leaves(shape)}


@pytest.mark.parametrize(
    ("effects", "keys"),
    [
        (TASK_EFFECTS, _rows(TASK)),
        (SOURCE_EFFECTS, _rows(SOURCE)),
        (DIFF_EFFECTS, _rows(DIFF)),
    ],
    ids=["task", "source", "comparison"],
)
def test_the_table_has_each_key_that_is_read_and_no_other(effects: tuple[KeyEffect, ...], keys: set[str]) -> None:
    assert sorted(one.key for one in effects) == sorted(keys)


def _keys_of_data(data: Any, shape: Shape, path: str = "") -> Iterator[str]:
    """The paths of the keys of a sample."""
    if isinstance(shape, Leaf | Free) or not isinstance(data, dict | list):
        yield path
    elif isinstance(data, list):
        assert isinstance(shape, Items)
        for item in data:
            yield from _keys_of_data(item, shape.shape, f"{path}[]")
    else:
        for key, value in data.items():
            inner = shape.shape if isinstance(shape, Named) else shape[key]  # type: ignore[index]
            yield from _keys_of_data(
                value, inner, f"{path}.*" if isinstance(shape, Named) else f"{path}.{key}".lstrip(".")
            )


@pytest.mark.parametrize("sample", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_the_table_has_each_key_of_the_samples(sample: Path) -> None:
    kinds = {"task": (TASK, TASK_EFFECTS), "source": (SOURCE, SOURCE_EFFECTS), "diff": (DIFF, DIFF_EFFECTS)}
    shape, effects = kinds[sample.stem.partition("-")[0]]
    known = {one.key for one in effects}
    found = set(_keys_of_data(yaml.safe_load(sample.read_text()), shape))
    assert {path for path in found if path not in known and not path.endswith("[]") and path != "filters"} == set()


# --- task and source files ---


def _set(data: Any, path: list[str], value: Any) -> None:
    """Sets ``path`` in ``data``; a named block is the first there is, and is made (and named) where there is none."""
    head, rest = path[0], path[1:]
    if not rest:
        data[head] = value
    elif head.endswith("[]"):
        _set(data.setdefault(head[:-2], [{}])[0], rest, value)
    elif head == "*":
        _set(data.setdefault(next(iter(data), "named"), {}), rest, value)
    else:
        _set(data.setdefault(head, {}), rest, value)


def _task_data(row: KeyEffect) -> tuple[Any, Any]:
    """A task file without and with another value for the row's key; both may have what the key needs beside it."""
    data = yaml.safe_load((CONFIGS / "task-full.yaml").read_text())
    top = row.key.partition(".")[0]
    value, needs, along = TASK_VALUES[row.key]
    instance = data["mysql-instances"][0]
    if top == "black-white-list":
        del data["block-allow-list"], instance["block-allow-list"]
        data["black-white-list"] = {"named": {"do-dbs": ["a"]}}
        instance["black-white-list"] = "named"
    _set_all(data, needs)
    changed = copy.deepcopy(data)
    _set_all(changed, along)
    _set(changed, row.key.split("."), value)
    return data, changed


def _set_all(data: Any, values: Mapping[str, Any]) -> None:
    for path, value in values.items():
        if value is None:
            _remove(data, path.split("."))
        else:
            _set(data, path.split("."), value)


def _remove(data: Any, path: list[str]) -> None:
    for part in path[:-1]:
        data = data[part[:-2]][0] if part.endswith("[]") else data[next(iter(data)) if part == "*" else part]
    data.pop(path[-1], None)


@functools.cache
def _names(module: str) -> frozenset[str]:
    """Every name, attribute and keyword in a module."""
    tree = ast.parse((ROOT / module).read_text())
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.replace("-", "_"))
    return frozenset(found)


def _check(row: KeyEffect, changed: bool, warnings: set[str]) -> None:
    if row.kind == "warned":
        assert any(row.name in text for text in warnings), warnings
        return
    assert row.kind == "works"
    assert changed, f"{row.key} changes nothing"
    field = FIELDS.get(row.key, row.name.replace("-", "_"))
    assert field in _names(row.acts), f"{row.acts} does not read {field}"


def _task_result(data: Any) -> tuple[Any, set[str]]:
    task = load_task(yaml.safe_dump(data, sort_keys=False))
    return dataclasses.replace(task, text="", warnings=()), set(task.warnings)


@pytest.mark.parametrize("row", TASK_EFFECTS, ids=lambda row: row.key)
def test_a_key_of_a_task_file_has_an_effect_or_is_named(row: KeyEffect) -> None:
    before, after = _task_data(row)
    if row.kind == "refused":
        _task_result(before)
        with pytest.raises(DMError, match=row.name):
            _task_result(after)
        return
    without, noted = _task_result(before)
    changed, warnings = _task_result(after)
    _check(row, changed != without, warnings - noted)


def _source_result(data: Any) -> tuple[Any, set[str]]:
    warnings: list[str] = []
    return load_source(yaml.safe_dump(data, sort_keys=False), "source.yaml", warnings), set(warnings)


@pytest.mark.parametrize("row", SOURCE_EFFECTS, ids=lambda row: row.key)
def test_a_key_of_a_source_file_has_an_effect_or_is_named(row: KeyEffect) -> None:
    before = yaml.safe_load((CONFIGS / "source.yaml").read_text())
    if row.key.startswith("filters"):
        before["filters"] = [{"schema-pattern": "a", "table-pattern": "t", "events": ["insert"], "action": "Ignore"}]
    after = copy.deepcopy(before)
    _set(after, row.key.split("."), SOURCE_VALUES[row.key])
    if row.kind == "refused":
        with pytest.raises(DMError, match=row.name):
            _source_result(after)
        return
    without, noted = _source_result(before)
    changed, warnings = _source_result(after)
    _check(row, changed != without, warnings - noted)


# --- the programs ---


@pytest.mark.parametrize(
    ("program", "row"),
    [*(("master", row) for row in MASTER_EFFECTS), *(("worker", row) for row in WORKER_EFFECTS)],
    ids=lambda one: one if isinstance(one, str) else one.key,
)
def test_a_key_of_a_program_has_an_effect_or_is_named(program: str, row: KeyEffect, tmp_path: Path) -> None:
    sample = tomllib.loads((CONFIGS / f"dm-{program}.toml").read_text())
    (tmp_path / "key").write_text("0f" * 32)
    (tmp_path / "users").write_text("# none yet\n")
    before, after = _program(program, sample, tmp_path), copy.deepcopy(sample)
    for gone in ("initial-cluster",) if row.key == "join" and program == "master" else ():
        del after[gone]
    for key in (row.key, *([PROGRAM_ALONG[row.key]] if row.key in PROGRAM_ALONG else [])):
        value = PROGRAM_VALUES[key]
        _set(after, key.split("."), value(tmp_path) if callable(value) else value)
    if row.kind == "refused":
        with pytest.raises(DMError, match=row.name):
            _program(program, after, tmp_path)
        return
    changed = _program(program, after, tmp_path)
    renamed = dataclasses.replace(row, key="worker-join") if (program, row.key) == ("worker", "join") else row
    _check(renamed, changed != before, set(changed.warnings()) - set(before.warnings()))


@pytest.mark.parametrize("options", [master.OPTIONS, worker.OPTIONS], ids=["master", "worker"])
def test_help_says_what_each_flag_does(options: tuple[Option, ...]) -> None:
    assert [option.name for option in options if not option.effect] == []
    text = usage("dm", options)
    assert [option.name for option in options if option.flag and option.effect not in text] == []


def _program(program: str, data: Mapping[str, Any], folder: Path) -> Any:
    path = folder / "program.toml"
    path.write_text(_toml(data))
    load = master.load_master_config if program == "master" else worker.load_worker_config
    return load(["--config", str(path)])


def _toml(data: Mapping[str, Any]) -> str:
    from pkg.settings.options import to_toml

    flat = {key: value for key, value in data.items() if key not in ("spark", "experimental")}
    return to_toml({**flat, **{key: data[key] for key in ("spark", "experimental") if key in data}})


def test_the_page_is_what_the_table_says() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text() == page(), "run make configuration-page"


def test_the_full_sample_is_what_the_table_says() -> None:
    assert (CONFIGS / "task-full.yaml").read_text() == sample(), "run make configuration-page"


def test_a_default_value_is_not_warned_of() -> None:
    data = yaml.safe_load((CONFIGS / "task-full.yaml").read_text())
    data["syncers"]["global"] |= {"batch": 100, "queue-size": 1024, "checkpoint-flush-interval": 30}
    assert _task_result(data)[1] == set()
    data["syncers"]["global"]["batch"] = 200
    [text] = _task_result(data)[1]
    assert text == "batch of global has no effect: the size of batches and transactions follows the backlog"
