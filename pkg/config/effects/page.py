"""docs/configuration.md, written from the declarations of the keys. Pure, except for :func:`main`, which prints it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pkg.config.effects.diff_keys import DIFF_EFFECTS
from pkg.config.effects.effect import KeyEffect
from pkg.config.effects.source_keys import SOURCE_EFFECTS
from pkg.config.effects.task_keys import TASK_EFFECTS
from pkg.config.master import MASTER_EFFECTS
from pkg.config.worker import WORKER_EFFECTS

_HEAD = """\
# Configuration: what each key does

This page lists every key of the configuration files, with its default and its effect. It is written from the
declarations in `pkg/config/effects` (`make configuration-page`); do not edit it. The samples in `configs/` explain the
keys at more length.

No key is ignored silently. The last column shows it:

- **works**: the value has the effect that is described.
- **warned**: the value does nothing. The answers of `check-task`, `start-task` and `operate-source create` list such
  keys under `warnings`; for dm-master and dm-worker the answer of `config master` or `config worker` does, and the log
  at the start. A value that is the default is not warned of.
- **refused**: another value than the default is an error that names the place.

Keys that are not on this page are errors. `*` stands for a name that you choose, `[]` for an entry of a list.
"""
_FILES: tuple[tuple[str, str, tuple[KeyEffect, ...]], ...] = (
    ("Task file", "For `dmctl start-task`; sample: `configs/task-full.yaml`.", TASK_EFFECTS),
    ("Source file", "For `dmctl operate-source create`; sample: `configs/source.yaml`.", SOURCE_EFFECTS),
    ("Comparison file", "For `dmctl diff start --config`; sample: `configs/diff.yaml`.", DIFF_EFFECTS),
    ("dm-master", "TOML; sample: `configs/dm-master.toml`.", MASTER_EFFECTS),
    ("dm-worker", "TOML; sample: `configs/dm-worker.toml`.", WORKER_EFFECTS),
)


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(part for title, note, rows in _FILES for part in _section(title, note, rows))])


def _section(title: str, note: str, rows: Sequence[KeyEffect]) -> list[str]:
    head = [f"## {title}", "", note, "", "| key | default | effect | |", "|---|---|---|---|"]
    return [*head, *map(_row, rows), ""]


def _row(row: KeyEffect) -> str:
    default = f"`{_cell(row.default)}`" if row.default else ""
    return f"| `{row.key}` | {default} | {_cell(row.effect)} | {row.kind} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Prints the page."""
    sys.stdout.write(page())


if __name__ == "__main__":
    main()
