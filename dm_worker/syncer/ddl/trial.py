"""The result of a statement, from the target itself: it is tried on empty tables of the same structures.

Servers show structures in their own SQL, with parts that our parser does not follow: partitions, comments,
constraints. So the server that shows them also shows the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b

from dm_worker.syncer.ddl.session import DDLSession, StatementFailed
from pkg import ddl, errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code, DMError
from pkg.mysql.names import TableId, qualified
from pkg.process.log import get_logger

log = get_logger("syncer.ddl")

#: Placeholder for a table's own name in names that the server derives from it.
_OWN = "\0"


class Trial:
    """Tries statements of one subtask, on its own tables in the meta schema."""

    def __init__(self, cfg: SubTaskConfig, session: DDLSession, target_flavor: str) -> None:
        identity = "\0".join((cfg.name, cfg.source_id))
        self._stem = f"dm_trial_{blake2b(identity.encode(), digest_size=8).hexdigest()}"
        self._schema = cfg.meta_schema
        self._session = session
        self._flavor = target_flavor

    def leads_to(
        self,
        statement: ddl.DDLStatement,
        targets: Sequence[TableId],
        before: Sequence[str],
        after: Sequence[str],
        execute: Callable[[str], None],
    ) -> bool | None:
        """Whether a statement on the tables ``targets`` changes them from ``before`` to ``after``, as SHOW CREATE
        shows them; None when the target does not show it.

        ``execute`` runs SQL in the statement's session. Raises DMError when a retry may help.
        """
        if not all(table for _, table in targets) or len({_folded(name) for name in targets}) < len(targets):
            return None
        trials = {name: (self._schema, f"{self._stem}_{i}") for i, name in enumerate(targets)}
        back = {trial: name for name, trial in trials.items()}
        real = {name: name for name in targets}
        made = False
        try:
            self._drop(back)
            made = True
            for name, text in zip(targets, before, strict=True):
                if text:
                    made_by = self._parsed(name[0], text)
                    self._session.run(_on(trials, ddl.rewrite(made_by, _route(trials)), made_by))
            text = ddl.rewrite(statement, _route(trials), target_flavor=self._flavor)
            execute(_on(trials, text, statement))
            found = self._session.shown(back).definitions
            expected = [self._plain(text, name, back) for text, name in zip(found, back, strict=True)]
            return expected == [self._plain(text, name, real) for text, name in zip(after, real, strict=True)]
        except (StatementFailed, DMError) as exc:
            error = exc.error if isinstance(exc, StatementFailed) else exc
            if error.retryable:
                raise error from exc
            if isinstance(exc, StatementFailed) and exc.may_pass_in_parts:
                # So is the statement itself: it has no result.
                return False
            log.warning("the target does not show what a DDL leads to", statement=statement.sql, error=error.message)
            return None
        finally:
            if made:
                self._drop(back)

    def column(self, definition: str, execute: Callable[[str], None]) -> str:
        """SHOW CREATE of a table with only this column; '' where the target refuses it. ``execute`` as in
        :meth:`leads_to`. Raises DMError when a retry may help."""
        trial = (self._schema, f"{self._stem}_0")
        self._drop([trial])
        try:
            execute(f"CREATE TABLE {qualified(*trial)} ({definition})")
            return self._session.shown([trial]).definitions[0]
        except StatementFailed as exc:
            if exc.error.retryable:
                raise exc.error from exc
            return ""
        finally:
            self._drop([trial])

    def _drop(self, trials: Iterable[TableId]) -> None:
        for trial in trials:
            self._session.run(f"DROP TABLE IF EXISTS {qualified(*trial)}")

    def _moved(self, text: str, schema: str, names: Mapping[TableId, TableId]) -> str:
        """The SHOW CREATE of a table in ``schema``, with its names changed and all qualified."""
        return ddl.rewrite(self._parsed(schema, text), _route(names))

    def _parsed(self, schema: str, text: str) -> ddl.DDLStatement:
        return ddl.parse(text, default_schema=schema, flavor=self._flavor)

    def _plain(self, text: str, name: TableId, names: Mapping[TableId, TableId]) -> str:
        """The SHOW CREATE of a table under other names, with a placeholder for its name in derived names, also for its
        name before the statement: TiDB does not rename constraints with their table."""
        return _own_names(self._moved(text, name[0], names), dict.fromkeys(names, ("", _OWN))) if text else ""


def _folded(name: TableId) -> TableId:
    return name[0].lower(), name[1].lower()


def _route(names: Mapping[TableId, TableId]) -> ddl.TableRewrite:
    """Routes the names; a server that ignores case shows its own spelling."""
    folded = {_folded(old): new for old, new in names.items()}
    return lambda schema, table: folded.get(_folded((schema, table)), (schema, table))


def _on(trials: Mapping[TableId, TableId], text: str, original: ddl.DDLStatement) -> str:
    """The SQL of a statement on the trial tables, with their constraint names.

    Raises 36067 for a statement that would act on other tables.
    """
    moved = _own_names(text, trials)
    if not {*ddl.parse_dialect(moved, original.dialect, "").tables} <= {*trials.values()}:
        raise errors.new(Code.SyncerParseDDL, f"a statement for trial tables would change other tables: {moved}")
    return moved


def _own_names(text: str, names: Mapping[TableId, TableId]) -> str:
    """The SQL with the constraint names that the server derives from a table's name, derived from its new name."""
    for (_, old), (_, new) in names.items():
        made = re.compile(rf"(?<![\w$]){re.escape(old)}(?=_(?:ibfk|chk)_\d+(?![\w$]))", re.IGNORECASE)
        text = made.sub(lambda _, new=new: new, text)  # type: ignore[misc]
    return text
