"""What a statement that was handled may have changed at the target."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dm_worker.syncer.ddl.executor import DDLStep
from pkg.mysql.names import TableId

#: What a statement has in its text that makes, changes or removes a foreign key, or renames what one names.
ABOUT_KEYS = re.compile(rb"references|foreign|constraint|rename|change|drop|database|schema", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StatementEffect:
    """``of_the_task``: the target or the known structures followed it. ``tables``: those of the target that the
    executed statements name, in any role; table '' for a whole schema. ``about_keys``: one of them may be about foreign
    keys."""

    of_the_task: bool = False
    tables: frozenset[TableId] = frozenset()
    about_keys: bool = False


def effect_of(steps: Iterable[DDLStep], *, of_the_task: bool) -> StatementEffect:
    """The effect of what was executed, which an operator may have given in place of the upstream's statement."""
    executed = list(steps)
    return StatementEffect(
        of_the_task,
        frozenset(step.route(ref.schema, ref.table) for step in executed for ref in step.parsed.refs),
        any(ABOUT_KEYS.search(step.text.encode()) for step in executed),
    )
