"""What a statement that was handled may have changed at the target."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dm_worker.syncer.ddl.executor import DDLStep
from pkg.mysql.names import TableId

#: What a statement has in its text that makes, changes or removes a foreign key, or renames what one names.
_ABOUT_KEYS = re.compile(rb"references|foreign|constraint|rename|change|drop|database|schema", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StatementEffect:
    """``of_the_task``: the target or the known structures followed it. ``named``: what the upstream's statement names,
    in any role; ``tables``: those of the target that the executed statements name. Table '' stands for a whole schema,
    and with schema '' for what is not known. ``about_keys``: one of the statements may be about foreign keys."""

    of_the_task: bool = False
    named: frozenset[TableId] = frozenset()
    tables: frozenset[TableId] = frozenset()
    about_keys: bool = False


def effect_of(
    steps: Iterable[DDLStep], *, of_the_task: bool = True, statement: bytes = b"", named: Iterable[TableId] = ()
) -> StatementEffect:
    """The effect of what was executed, which an operator may have given in place of the upstream's ``statement``."""
    executed = list(steps)
    return StatementEffect(
        of_the_task,
        frozenset(named),
        frozenset(step.route(ref.schema, ref.table) for step in executed for ref in step.parsed.refs),
        any(_ABOUT_KEYS.search(text) for text in (statement, *(step.text.encode() for step in executed))),
    )


def by_others(table: TableId) -> StatementEffect:
    """The effect of a statement about the target's ``table`` that another source or an operator executes."""
    return StatementEffect(tables=frozenset({table}), about_keys=True)
