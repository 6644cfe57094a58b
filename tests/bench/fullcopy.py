"""Full copy: dump and load, against mydumper and myloader, and ``mariadb-dump | mariadb``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deploy.local.mysql import SQLServer
from deploy.local.process import HarnessError
from dm_worker.dumper import DumpUnit
from dm_worker.loader import LoadUnit
from dm_worker.loader.early_load import EarlyLoad
from tests.bench import peers
from tests.bench.figures import Cost, Report
from tests.bench.rig import Rig, checksum
from tests.bench.workloads import SCHEMA, TABLE, all_workloads

_WIDE = f"{SCHEMA}.wide"
_TABLES = (TABLE, _WIDE)
_DUMP, _LOAD, _OVERLAPPED = "dump, ours", "load, ours", "both, ours, rows while dumping"
_MYDUMPER, _PIPE = "dump, mydumper", "both, mariadb-dump | mariadb"


def run(rig: Rig, rows: int) -> None:
    """``rows`` of sysbench's shape and a fifth as many of mixed types."""
    rig.warm_up()
    known = all_workloads()
    rig.fresh_source(known["oltp"], rows)
    known["wide"].create(rig.source, rows // 5)
    rig.source.execute("DROP DATABASE bench")
    rig.durability(False)
    total = rows + rows // 5
    costs: dict[str, list[Cost]] = {}
    with peers.mydump(rig.source, rig.threads) as (folder, _):

        def load(late_keys: bool) -> Cost:
            rig.target.wipe()
            cost = peers.myload(rig.target, rig.threads, folder, late_keys=late_keys)
            _check_peer(rig, peers.MYLOADER)
            return cost

        myloader = peers.myloader(load)
        for _ in range(rig.runs):
            for name, cost in _one_turn(rig).items():
                costs.setdefault(name, []).append(cost)
            myloader.run()
    title = f"full copy, {rig.threads} threads"
    print(f"\nFull copy of {total:,} rows, {rig.threads} threads, relaxed durability", flush=True)
    for name, turns in {**costs, **myloader.turns}.items():
        rig.report.turns(title, name, turns, total)
    _tell(rig.report, costs, myloader)


def _tell(report: Report, costs: Mapping[str, list[Cost]], myloader: peers.BestOf) -> None:
    dumps, loads, theirs = costs[_DUMP], costs[_LOAD], costs[_MYDUMPER]
    both, early = _sums(dumps, loads), costs[_OVERLAPPED]
    peer, native = f"mydumper + {myloader.best}", _sums(theirs, myloader.costs)
    report.compare("T6", "full copy: dump", "mydumper", dumps, theirs, 1.1)
    report.compare("T7", "full copy: load", myloader.best, loads, myloader.costs, 1.5)
    report.compare("T17", "full copy: both", peer, both, native, 1.8)
    report.compare("T17", "full copy: both, rows while dumping", peer, early, native, 1.8)
    report.compare("", "full copy: both, rows while dumping", "ours, one after the other", early, both)
    report.compare("", "full copy: both", _PIPE, both, costs[_PIPE])


def _one_turn(rig: Rig) -> dict[str, Cost]:
    """Our own ways, mydumper, and the copy by a pipe."""
    rig.target.wipe()
    cfg = rig.config("full")
    costs = {_DUMP: rig.copied(DumpUnit(cfg, rig.engine)), _LOAD: rig.copied(LoadUnit(cfg, rig.engine))}
    rig.check(_TABLES, "full copy, ours")
    rig.target.wipe()
    cfg = rig.config("full")
    early = EarlyLoad(cfg, rig.engine)
    costs[_OVERLAPPED] = rig.copied(DumpUnit(cfg, rig.engine, early), LoadUnit(cfg, rig.engine))
    rig.check(_TABLES, "full copy, rows while dumping")
    with peers.mydump(rig.source, rig.threads) as (_, dumped):
        costs[_MYDUMPER] = dumped
    rig.target.wipe()
    costs[_PIPE] = peers.dump_pipe(rig.source, rig.target)
    _check_peer(rig, "mariadb-dump")
    return costs


def _check_peer(rig: Rig, who: str) -> None:
    """Compares a peer's copy. Peers lose bits of FLOAT values, so it leaves out these columns and reports that."""
    rig.check([TABLE], who)
    found = [_without_floats(server, _WIDE) for server in (rig.source, rig.target)]
    if found[0] != found[1]:
        raise HarnessError(f"{who}: {_WIDE} differs between source and target: {found}")
    if checksum(rig.source, _WIDE) != checksum(rig.target, _WIDE):
        print(f"  {who} lost bits of FLOAT values")


def _without_floats(server: SQLServer, table: str) -> Sequence[object]:
    names = [str(row[0]) for row in server.execute(f"SHOW COLUMNS FROM {table}") if not str(row[1]).startswith("float")]
    values = ", ".join(f"IFNULL(HEX(`{name}`), '-')" for name in names)
    return server.execute(f"SELECT COUNT(*), BIT_XOR(CRC32(CONCAT_WS('/', {values}))) FROM {table}")[0]


def _sums(first: Sequence[Cost], second: Sequence[Cost]) -> list[Cost]:
    return [a + b for a, b in zip(first, second, strict=True)]
