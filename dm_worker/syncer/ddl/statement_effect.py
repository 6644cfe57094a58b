"""What an executed statement may have changed at the target."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dm_worker.syncer.ddl.executor import DDLStep
from pkg.mysql.names import TableId

#: The SQL keywords of a statement that adds, changes or removes a foreign key, or renames what a key names.
_ABOUT_KEYS = re.compile(rb"references|foreign|constraint|rename|change|drop|database|schema", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StatementEffect:
    """``of_the_task``: the target or the known structures followed it. ``named``: the names in the upstream's
    statement, in any role; ``tables``: the target's tables in the executed statements. Table '' stands for a whole
    schema, and with schema '' for unknown names. ``about_keys``: one of the statements may change foreign keys."""

    of_the_task: bool = False
    named: frozenset[TableId] = frozenset()
    tables: frozenset[TableId] = frozenset()
    about_keys: bool = False


def effect_of(
    steps: Iterable[DDLStep], *, of_the_task: bool = True, statement: bytes = b"", named: Iterable[TableId] = ()
) -> StatementEffect:
    """The effect of the executed statements, which an operator may have given in place of ``statement``."""
    executed = list(steps)
    return StatementEffect(
        of_the_task,
        frozenset(named),
        frozenset(step.route(ref.schema, ref.table) for step in executed for ref in step.parsed.refs),
        any(_ABOUT_KEYS.search(text) for text in (statement, *(step.text.encode() for step in executed))),
    )


def by_others(table: TableId) -> StatementEffect:
    """The effect of a statement on the target's ``table`` that another source or an operator executes."""
    return StatementEffect(tables=frozenset({table}), about_keys=True)
