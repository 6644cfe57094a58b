"""What a statement leads to, asked of the target itself: it is tried on empty tables of the same structures.

Servers print structures in words of their own, which also name what no parser of ours follows: partitions, comments,
constraints. So the server that printed them says what they become.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b

from dm_worker.syncer.ddl_session import DDLSession, StatementFailed
from pkg import ddl
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.log import get_logger
from pkg.mysql.names import qualified

log = get_logger("syncer.ddl")

_Name = tuple[str, str]
#: In the place of a table's own name in names that the server makes of it.
_OWN = "\0"


class Trial:
    """Tries statements of one subtask, on tables in the meta schema that nothing else has."""

    def __init__(self, cfg: SubTaskConfig, session: DDLSession, target_flavor: str) -> None:
        identity = "\0".join((cfg.name, cfg.source_id))
        self._stem = f"dm_trial_{blake2b(identity.encode(), digest_size=8).hexdigest()}"
        self._schema = cfg.meta_schema
        self._session = session
        self._flavor = target_flavor

    def leads_to(
        self,
        statement: ddl.Statement,
        targets: Sequence[_Name],
        before: Sequence[str],
        after: Sequence[str],
        execute: Callable[[str], None],
    ) -> bool | None:
        """Whether a statement about the tables ``targets`` brings them from ``before`` to ``after``, as SHOW CREATE
        shows them; None when the target does not tell.

        ``execute`` runs a text as the statement's own is. Raises DMError when another try may help.
        """
        if not all(table for _, table in targets):
            return None
        trials = {name: (self._schema, f"{self._stem}_{i}") for i, name in enumerate(targets)}
        back = {trial: name for name, trial in trials.items()}
        made = False
        try:
            self._drop(back)
            made = True
            for name, text in zip(targets, before, strict=True):
                if text:
                    self._session.run(_own_names(self._moved(text, name[0], trials), trials))
            execute(_own_names(ddl.rewrite(statement, _route(trials), target_flavor=self._flavor), trials))
            found = self._session.shown(back).texts
            expected = [self._plain(text, *pair) for text, pair in zip(found, back.items(), strict=True)]
            return expected == [self._plain(text, name, name) for text, name in zip(after, targets, strict=True)]
        except (StatementFailed, DMError) as exc:
            error = exc.error if isinstance(exc, StatementFailed) else exc
            if error.retryable:
                raise error from exc
            log.warning("the target does not tell what a DDL leads to", statement=statement.sql, error=error.message)
            return None
        finally:
            if made:
                self._drop(back)

    def _drop(self, trials: Iterable[_Name]) -> None:
        for trial in trials:
            self._session.run(f"DROP TABLE IF EXISTS {qualified(*trial)}")

    def _moved(self, text: str, schema: str, names: Mapping[_Name, _Name]) -> str:
        """What SHOW CREATE shows of a table in ``schema``, with its names changed and all qualified."""
        return ddl.rewrite(ddl.parse(text, default_schema=schema, flavor=self._flavor), _route(names))

    def _plain(self, text: str, name: _Name, real: _Name) -> str:
        """What SHOW CREATE shows of a table, as it would be of ``real``, whatever the server made of the name."""
        return _own_names(self._moved(text, name[0], {name: real}), {name: ("", _OWN)}) if text else ""


def _route(names: Mapping[_Name, _Name]) -> ddl.Route:
    return lambda schema, table: names.get((schema, table), (schema, table))


def _own_names(text: str, names: Mapping[_Name, _Name]) -> str:
    """The text with the constraints' names that the server makes of a table's name made of its new one."""
    for (_, old), (_, new) in names.items():
        text = re.sub(rf"(?<![\w$]){re.escape(old)}(?=_(?:ibfk|chk)_\d+(?![\w$]))", lambda _, new=new: new, text)  # type: ignore[misc]
    return text
