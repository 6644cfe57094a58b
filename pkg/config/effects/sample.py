"""configs/task-full.yaml, written from the declarations of the keys. Pure, except for :func:`main`, which prints it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from pkg.config.effects.task_keys import TASK_KEYS
from pkg.settings.keys import Block, FileKey, FilePart

_HEAD = """\
# Every key of a task file, with its default unless a comment says otherwise. `dmctl start-task task.yaml` runs it.
# `make configuration-page` writes this file from the declarations of the keys."""
_STEP = "  "


def sample(parts: Iterable[FilePart] = TASK_KEYS) -> str:
    """The whole file."""
    return "\n".join([_HEAD, *_lines(parts, "", 0)]) + "\n"


def _lines(parts: Iterable[FilePart], indent: str, entry: int) -> Iterator[str]:
    """``entry``: the index in a named block's names above these keys; the first has the comments."""
    for part in parts:
        if entry == 0:
            yield from _comment(part.comment, indent)
        if isinstance(part, Block):
            yield from _block(part, indent, entry)
        elif value := _value(part, entry):
            yield f"{indent}{part.name}: {value}"


def _comment(text: str, indent: str) -> Iterator[str]:
    if text:
        for line in text.split("\n"):
            yield f"{indent}# {line}" if line else ""


def _value(key: FileKey, entry: int) -> str:
    samples = (key.sample,) if isinstance(key.sample, str) else key.sample
    return samples[entry] if entry < len(samples) else ""


def _block(block: Block, indent: str, entry: int) -> Iterator[str]:
    inner = [] if block.effect else list(_entries(block, indent + _STEP, entry))
    if any(not line.lstrip().startswith("#") for line in inner):
        yield f"{indent}{block.name}:"
        yield from inner


def _entries(block: Block, indent: str, entry: int) -> Iterator[str]:
    if block.form == "named":
        for number, name in enumerate(block.names):
            yield f"{indent}{name}:"
            yield from _lines(block.keys, indent + _STEP, number)
    elif block.form == "items":
        first, *rest = _lines(block.keys, indent + _STEP, entry)
        yield f"{indent}- {first.lstrip()}"
        yield from rest
    else:
        yield from _lines(block.keys, indent, entry)


def main() -> None:
    """Prints the file."""
    sys.stdout.write(sample())


if __name__ == "__main__":
    main()
