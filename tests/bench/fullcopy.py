"""Full copy: dump and load, against mydumper and myloader, and ``mariadb-dump | mariadb``."""

from __future__ import annotations

from collections.abc import Sequence

from deploy.local.mysql import SQLServer
from deploy.local.process import HarnessError
from dm_worker.dumper import DumpUnit
from dm_worker.loader import LoadUnit
from dm_worker.loader.early_load import EarlyLoad
from tests.bench import peers
from tests.bench.rig import Rig, checksum, timed
from tests.bench.workloads import SCHEMA, TABLE, all_workloads

_WIDE = f"{SCHEMA}.wide"
_TABLES = (TABLE, _WIDE)
_EARLY = "both, ours, rows while dumping"


def run(rig: Rig, rows: int) -> None:
    """``rows`` of sysbench's shape and a fifth as many of mixed types."""
    rig.warm_up()
    known = all_workloads()
    rig.fresh_source(known["oltp"], rows)
    known["wide"].create(rig.source, rows // 5)
    rig.source.execute("DROP DATABASE bench")
    rig.durability(False)
    total = rows + rows // 5
    seconds: dict[str, list[float]] = {}
    for _ in range(rig.runs):
        for name, value in _one_turn(rig).items():
            seconds.setdefault(name, []).append(value)
    title = f"full copy, {rig.threads} threads"
    print(f"\nFull copy of {total:,} rows, {rig.threads} threads, relaxed durability", flush=True)
    for name, values in seconds.items():
        rig.report.measured(title, name, values, total)
    dump, load = seconds["dump, ours"], seconds["load, ours"]
    both = _sums(dump, load)
    early = seconds[_EARLY]
    rig.report.ratio("T6", "full copy: dump", "mydumper", dump, seconds["dump, mydumper"], 0.7)
    rig.report.ratio("T7", "full copy: load", "myloader", load, seconds["load, myloader"], 1.0)
    native = _sums(seconds["dump, mydumper"], seconds["load, myloader"])
    rig.report.ratio("", "full copy: both", "mydumper + myloader", both, native)
    rig.report.ratio("", "full copy: both, rows while dumping", "mydumper + myloader", early, native)
    rig.report.ratio("", "full copy: both, rows while dumping", "ours, one after the other", early, both)
    rig.report.ratio("", "full copy: both", "mariadb-dump | mariadb", both, seconds["both, mariadb-dump | mariadb"])


def _one_turn(rig: Rig) -> dict[str, float]:
    rig.target.wipe()
    cfg = rig.config("full")
    seconds = {"dump, ours": timed(DumpUnit(cfg, rig.engine)), "load, ours": timed(LoadUnit(cfg, rig.engine))}
    rig.check(_TABLES, "full copy, ours")
    rig.target.wipe()
    cfg = rig.config("full")
    dump = timed(DumpUnit(cfg, rig.engine, EarlyLoad(cfg, rig.engine)))
    seconds[_EARLY] = dump + timed(LoadUnit(cfg, rig.engine))
    rig.check(_TABLES, "full copy, rows while dumping")
    rig.target.wipe()
    dumped, loaded = peers.mydumper(rig.source, rig.target, rig.threads)
    seconds |= {"dump, mydumper": dumped, "load, myloader": loaded}
    _check_peer(rig, "mydumper + myloader")
    rig.target.wipe()
    seconds["both, mariadb-dump | mariadb"] = peers.dump_pipe(rig.source, rig.target)
    _check_peer(rig, "mariadb-dump")
    return seconds


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


def _sums(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [a + b for a, b in zip(first, second, strict=True)]
