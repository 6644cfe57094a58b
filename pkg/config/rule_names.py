"""The names of a task's rules and their locations in its file.

Workers get rules without names, because a name has no effect. Code that explains rules, or reports errors in them,
reads the names from the file again, in the order of the instances' rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pkg.config.keys import TASK
from pkg.config.model import SourceConfig, SubTaskConfig, TaskConfig
from pkg.settings.yaml_reader import Section, read_document

#: Keys of an instance that name rules → the task file's block with these, and the key of a rule's pattern.
_BLOCKS = {
    "route-rules": ("routes", "schema-pattern"),
    "filter-rules": ("filters", "schema-pattern"),
    "column-mapping-rules": ("column-mappings", "schema-pattern"),
    "expression-filters": ("expression-filter", "schema"),
}
_LIST_KEYS = ("do-dbs", "do-tables", "ignore-dbs", "ignore-tables")


@dataclass(frozen=True, slots=True)
class RuleName:
    """One rule: its ``block`` in the file, its ``name`` there, and ``location`` as file:line:column.

    A rule of a source's own file has no ``location``, because the file is not available.
    """

    block: str
    name: str
    location: str = ""

    def __str__(self) -> str:
        """The start of a message: the location first, as for other errors in files."""
        return f"{self.location}: {self.label}" if self.location else self.label

    @property
    def label(self) -> str:
        return f"{self.name!r} of {self.block}"


@dataclass(frozen=True, slots=True)
class InstanceNames:
    """The names of one instance's rules, in the order of the rules.

    ``entries`` are those of its block-allow-list: key (do-dbs, …) → one for each entry of that key.
    """

    routes: tuple[RuleName, ...] = ()
    filters: tuple[RuleName, ...] = ()
    column_mappings: tuple[RuleName, ...] = ()
    expression_filters: tuple[RuleName, ...] = ()
    block_allow_list: RuleName | None = None
    entries: Mapping[str, tuple[RuleName, ...]] = field(default_factory=dict)

    @property
    def all(self) -> Iterator[RuleName]:
        """Every rule and every entry of the block-allow-list."""
        yield from (*self.routes, *self.filters, *self.column_mappings, *self.expression_filters)
        for names in self.entries.values():
            yield from names


def numbered_names(subtask: SubTaskConfig) -> InstanceNames:
    """Names by number, for the rules of a stored subtask, whose file is not read."""

    def numbered(block: str, rules: Sequence[object]) -> tuple[RuleName, ...]:
        return tuple(RuleName(block, f"number {number}") for number in range(1, len(rules) + 1))

    return InstanceNames(
        numbered("routes", subtask.routes),
        numbered("filters", subtask.filters),
        numbered("column-mappings", subtask.column_mappings),
        numbered("expression-filter", subtask.expression_filters),
    )


def read_rule_names(task: TaskConfig, path: str = "task.yaml") -> dict[str, InstanceNames]:
    """Source-id → the names of its rules. ``task`` was read from its ``text``, so the text is valid here."""
    top = read_document(task.text, path, TASK)
    blocks = {block: top.sections(block) for block, _ in _BLOCKS.values()}
    lists = {key: top.sections(key) for key in ("block-allow-list", "black-white-list")}
    old_lists = lists["block-allow-list"] or lists["black-white-list"]

    def named(instance: Section, key: str) -> tuple[RuleName, ...]:
        block, pattern = _BLOCKS[key]
        names = [name for name in instance.strings(key) if name in blocks[block]]
        return tuple(RuleName(block, name, blocks[block][name].location(pattern)) for name in names)

    return {
        instance.text("source-id"): InstanceNames(
            named(instance, "route-rules"),
            named(instance, "filter-rules"),
            named(instance, "column-mapping-rules"),
            named(instance, "expression-filters"),
            *_block_allow_list(instance, old_lists),
        )
        for instance in top.items("mysql-instances")
    }


def subtask_rule_names(task: TaskConfig, sources: Mapping[str, SourceConfig]) -> dict[str, InstanceNames]:
    """As :func:`read_rule_names`, with the filters of the sources' own files after those of the task."""
    return {
        source_id: replace(names, filters=names.filters + _own_filters(sources.get(source_id)))
        for source_id, names in read_rule_names(task).items()
    }


def _own_filters(source: SourceConfig | None) -> tuple[RuleName, ...]:
    if source is None:
        return ()
    return tuple(RuleName(f"source {source.source_id}", f"filters[{i}]") for i in range(len(source.filters)))


def _block_allow_list(
    instance: Section, lists: Mapping[str, Section]
) -> tuple[RuleName | None, Mapping[str, tuple[RuleName, ...]]]:
    name = instance.text("block-allow-list") or instance.text("black-white-list")
    section = lists.get(name)
    if section is None:
        return None, {}
    whole = RuleName("block-allow-list", name, section.location(""))
    return whole, {key: tuple(_entries(section, name, key)) for key in _LIST_KEYS}


def _entries(section: Section, name: str, key: str) -> list[RuleName]:
    def named(count: int, location: Callable[[int], str]) -> list[RuleName]:
        return [RuleName("block-allow-list", f"{name}: {key}[{i}]", location(i)) for i in range(count)]

    if key.endswith("dbs"):
        return named(len(section.strings(key)), lambda i: section.location(key, i))
    items: Sequence[Section] = section.items(key)
    return named(len(items), lambda i: items[i].location("db-name"))
