"""Task files with every kind of rule, read as the configuration reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import yaml

from pkg.config import filters
from pkg.config.keys import TASK
from pkg.config.model import InstanceConfig, TaskConfig
from pkg.config.task import load_task
from pkg.config.yaml_reader import Section, read_document

_T = TypeVar("_T")
_BLOCKS = {
    "route-rules": "routes",
    "filter-rules": "filters",
    "column-mapping-rules": "column-mappings",
    "expression-filters": "expression-filter",
}


def load_with_rules(text: str) -> TaskConfig:
    """The task, its rules as the readers of the blocks give them: whatever units and reader of the file refuse yet."""
    data: dict[str, Any] = yaml.safe_load(text)
    for block in _BLOCKS.values():
        data.pop(block, None)
    for instance in data["mysql-instances"]:
        for key in _BLOCKS:
            instance.pop(key, None)
    task = load_task(yaml.safe_dump(data))
    top = read_document(text, "task.yaml", TASK)
    sections = top.items("mysql-instances")
    instances = [_with_rules(top, *pair) for pair in zip(task.instances, sections, strict=True)]
    return replace(task, instances=tuple(instances), text=text)


def _with_rules(top: Section, instance: InstanceConfig, section: Section) -> InstanceConfig:
    case = top.flag("case-sensitive", False)

    def read(key: str, reader: Callable[[Section], _T]) -> tuple[_T, ...]:
        blocks = top.sections(_BLOCKS[key])
        return tuple(reader(blocks[name]) for name in section.texts(key))

    return replace(
        instance,
        routes=read("route-rules", lambda block: filters.read_route(block, case)),
        filters=read("filter-rules", filters.read_filter),
        column_mappings=read("column-mapping-rules", lambda block: filters.read_column_mapping(block, [])),
        expression_filters=read("expression-filters", filters.read_expression_filter),
    )
