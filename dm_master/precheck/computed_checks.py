"""Checks whether the target would compute generated columns differently from the upstream's sessions."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from dm_master.inspection.inspected_server import InspectedServer
from dm_master.precheck.result import CheckFinding, fail, warn
from dm_master.rules.inspected_upstream import InspectedUpstream
from pkg.mysql import session_expressions
from pkg.mysql.computing_sessions import computing_settings, differing
from pkg.mysql.names import TableId
from pkg.mysql.schema import TableInfo


def check_computed(
    upstream: InspectedUpstream, target: InspectedServer, present: Mapping[TableId, TableInfo]
) -> list[CheckFinding]:
    """One finding for each target table that would store other values; a table that is not ``present`` is created with
    the upstream's columns. The servers are queried only if there is such a column. Raises ``pymysql.Error``."""

    @functools.cache
    def differing_variables() -> frozenset[str]:
        session = dict(upstream.subtask.to.session)
        return differing(computing_settings(upstream.conn), computing_settings(target.conn), session)

    problem = fail if upstream.starts_now(target) else warn
    findings = []
    for source, info in upstream.structures.items():
        name = upstream.routed[source]
        columns = session_expressions.kept_otherwise(present.get(name, info), differing_variables)
        if columns:
            what, advice = session_expressions.problem(name, columns), session_expressions.remedy(name, columns)
            findings.append(problem(what, advice, subject=upstream.subtask.source_id))
    return findings
