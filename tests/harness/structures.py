"""Structures of an upstream and of a target, and what a cutover says of them."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace

from deploy.local.mysql import SQLServer
from dm_master.cutover.facts import CutoverFacts
from dm_master.cutover.reading import server_facts, target_facts
from dm_master.cutover.runner import CHECKS
from dm_master.cutover.verdict import CheckVerdict
from dm_master.inspection.inspected_server import InspectedServer
from tests.unit.dm_master.cutover.made_facts import ready, upstream

_ROUTES = {("app", name): ("moved", name) for name in ("t", "parent")}
PARENT = "CREATE TABLE {}.parent (id INT PRIMARY KEY)"
TABLE = "CREATE TABLE {}.t (id INT PRIMARY KEY, a INT, s VARCHAR(20), d DATE, j JSON{})"


def facts_of(source: SQLServer, there: SQLServer, user: str = "root") -> CutoverFacts:
    """``user``: of the upstream."""
    with ExitStack() as stack:
        here = stack.enter_context(closing(InspectedServer(replace(source.db_config, user=user), "upstream")))
        at = stack.enter_context(closing(InspectedServer(there.db_config, "downstream")))
        of_source = server_facts("one", here, here.table_infos(_ROUTES), {"app"})
        return ready(upstreams=(upstream(server=of_source, routed=_ROUTES),), target=target_facts(at, _ROUTES.values()))


def _verdict(check: str, source: SQLServer, there: SQLServer) -> CheckVerdict:
    return CHECKS[check](facts_of(source, there))


def _mend(there: SQLServer, found: CheckVerdict) -> None:
    assert found.remedy.startswith("on the target: "), found
    there.execute(*found.remedy.removeprefix("on the target: ").partition(" — ")[0].split("; "))


def proves(check: str, servers: tuple[SQLServer, SQLServer], made: str, fault: str, why: str) -> None:
    """No with evidence; after its remedy yes; and yes at once where the target has the same statements."""
    source, there = servers
    source.execute("CREATE DATABASE app", PARENT.format("app"), made)
    there.execute("CREATE DATABASE moved", PARENT.format("moved"), fault)
    found = _verdict(check, source, there)
    assert found.verdict == "no"
    assert why in "\n".join(found.evidence)
    _mend(there, found)
    mended = _verdict(check, source, there)
    assert mended.verdict == "yes", mended
    there.execute("DROP DATABASE moved", "CREATE DATABASE moved", PARENT.format("moved"))
    there.execute(made.replace(" app.", " moved."))
    same = _verdict(check, source, there)
    assert same.verdict == "yes", same


def table_with(element: str, schema: str) -> str:
    return TABLE.format(schema, f", {element.format(schema)}" if element else "")
