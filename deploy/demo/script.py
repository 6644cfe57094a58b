"""The demo, step by step."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploy.demo import lag, texts
from deploy.demo.comparison import checksum
from deploy.demo.environment import PROBES, RANGE, ROWS, Environment
from deploy.demo.progress import CopyProgress
from deploy.demo.screen import Board, Screen
from deploy.local.cluster import program
from deploy.local.process import WAIT_TIMEOUT, HarnessError

DDL = "ADD COLUMN channel VARCHAR(20) NOT NULL DEFAULT 'web'"
States = dict[str, dict[str, Any]]


def play(environment: Environment, screen: Screen, *, keep: bool) -> bool:
    """Runs the demo; True if source and target are equal at its end."""
    figures: list[str] = []
    _start(environment, screen)
    _create_data(environment, screen)
    _start_task(environment, screen)
    figures.append(_copy(environment, screen))
    figures.append(_measure_lag(environment, screen))
    figures.append(_change_schema(environment, screen))
    equal = _compare(environment, screen)
    screen.step("The figures of this run")
    for figure in (*figures, f"everything, from nothing to the comparison: {texts.seconds(screen.elapsed)}"):
        screen.say(f"  {figure}")
    if keep:
        _say_how_to_go_on(environment, screen)
    else:
        screen.say("\n  stopping servers and cluster …")
        environment.close()
        _say_what_next(screen)
    return equal


def _start(environment: Environment, screen: Screen) -> None:
    screen.step("Starting two upstreams, a target, a dm-master and two dm-workers")
    for line in environment.start():
        screen.say(f"  {line}")


def _create_data(environment: Environment, screen: Screen) -> None:
    screen.step(f"Creating four shards of one table with {ROWS:,} rows each; writers start to change them")
    for i, shard in enumerate(environment.shards):
        environment.fill(shard, seed=i)
        source = environment.sources[environment.upstreams.index(shard.server)]
        screen.say(f"  {source}  {shard.schema}.{shard.table}  →  shop.orders in the target")
    for writer in environment.writers:
        writer.start()


def _start_task(environment: Environment, screen: Screen) -> None:
    screen.step("Adding the sources, checking the task, starting it")
    for source, server in zip(environment.sources, environment.upstreams, strict=True):
        _dmctl(environment, screen, "operate-source", "create", environment.source_file(source, server))
        screen.say(f"    {screen.good('ok')}: a worker is bound to {source}")
    task = environment.task_file()
    answer = _dmctl(environment, screen, "check-task", task)
    report = texts.report_of(str(answer["msg"]))
    for line in texts.report_lines(report):
        screen.say(f"    {screen.warn(line) if line.startswith('!') else line}")
    if report.warnings:
        screen.say("    A warning does not stop the task. The ids of the demo's shards do not overlap.")
    _dmctl(environment, screen, "start-task", task)
    screen.say(f"    {screen.good('ok')}: one subtask per source is running")


def _dmctl(environment: Environment, screen: Screen, *args: str) -> dict[str, Any]:
    """Prints and runs one command, which must succeed."""
    shown = (Path(arg).name if arg.endswith(".yaml") else arg for arg in args)
    screen.command(f"dmctl {' '.join(map(shlex.quote, shown))}")
    return environment.cluster.ok(*args)


def _copy(environment: Environment, screen: Screen) -> str:
    screen.step("Full copy (dump, then load), as query-status reports it")
    total = len(environment.shards) * ROWS
    copies = {source: CopyProgress(total // len(environment.sources)) for source in environment.sources}
    board = Board(screen)
    began = time.monotonic()

    def look() -> bool:
        for source, state in _states(environment).items():
            copy = copies[source]
            loaded = _loaded_rows(environment, source) if state["unit"] == "Load" else 0
            changed = copy.note(state, loaded, time.monotonic())
            board.show(source, f"  {source}  {copy.line()}", now=changed)
        return all(copy.is_over for copy in copies.values())

    _follow(environment, look, 0.3)
    took = time.monotonic() - began
    return f"full copy: {total:,} rows in {texts.seconds(took)}, {total / took:,.0f} rows/s, start of Spark included"


def _loaded_rows(environment: Environment, source: str) -> int:
    """How many rows of the source's shards are committed in the target."""
    shards = environment.shards_of(environment.upstreams[environment.sources.index(source)])
    first, last = shards[0].offset, shards[-1].offset + RANGE
    exists = environment.target.execute(
        "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop' AND TABLE_NAME = 'orders'"
    )
    if not exists:
        return 0
    return int(
        environment.target.execute(f"SELECT COUNT(*) FROM shop.orders WHERE id >= {first} AND id < {last}")[0][0]
    )


def _measure_lag(environment: Environment, screen: Screen) -> str:
    screen.step("Live replication: the writers go on, and the target follows")
    board = Board(screen)
    end = time.monotonic() + 4

    def look() -> bool:
        states = _states(environment)
        for source, state in states.items():
            board.show(source, f"  {source}  {texts.sync_line(state)}")
        behind = [int(state["sync"]["secondsBehindMaster"]) for state in states.values()]
        return time.monotonic() > end and len(behind) == len(environment.sources) and max(behind) <= 1

    _follow(environment, look, 0.5)
    screen.command("dmctl query-status demo")
    for line in environment.cluster.dmctl_text("query-status", "demo", "--table").splitlines():
        screen.say(f"  {line}")
    found = lag.measure(environment.shards[0], environment.target, PROBES, probes=20)
    text = f"{texts.seconds(found.median)} (median of {found.probes} rows), {texts.seconds(found.longest)} at most"
    screen.say(f"  from a commit upstream to the row in the target: {text}")
    return f"replication lag: {text}"


def _change_schema(environment: Environment, screen: Screen) -> str:
    screen.step("A DDL reaches one shard after another, and runs once in the target when all four have it")
    most = 0
    for i, shard in enumerate(environment.shards):
        source = environment.sources[environment.upstreams.index(shard.server)]
        shard.server.execute(f"ALTER TABLE {shard.name} {DDL}")
        reached = time.monotonic()
        screen.say(f"  {source}  ALTER TABLE {shard.schema}.{shard.table} ADD COLUMN channel …")
        if i + 1 < len(environment.shards):
            time.sleep(2)
            most = max(most, _show_waiting(environment, screen, i + 1))
    _follow(environment, lambda: _is_settled(environment), 0.2)
    took = texts.seconds(time.monotonic() - reached)
    screen.say(
        f"    4 of 4 · {screen.good('done')} after {took}: executed once, and the rows held back were read again"
    )
    return (
        f"DDL of four shards: executed once, settled {took} after the last shard ran it; {most:,} rows were held back"
    )


def _show_waiting(environment: Environment, screen: Screen, done: int) -> int:
    """Shows the rows that wait for the DDL after ``done`` shards; returns their number."""
    states = _states(environment)
    held = texts.held_rows(states)
    reached = {shard.server for shard in environment.shards[:done]}
    others = [
        source
        for source, server in zip(environment.sources, environment.upstreams, strict=True)
        if server not in reached
    ]
    screen.say(f"    {done} of 4 · {held:,} rows held back · waits for {texts.who_is_waited_for(states, others)}")
    if done == len(environment.shards) - 1:
        screen.command("dmctl shard-ddl-lock demo")
        screen.say(f"    {environment.cluster.dmctl('shard-ddl-lock', 'demo')['msg']}")
    return held


def _is_settled(environment: Environment) -> bool:
    states = _states(environment)
    groups = [group for state in states.values() for group in state["sync"]["unresolvedGroups"]]
    locks = environment.cluster.dmctl("shard-ddl-lock", "demo")["locks"]
    return bool(states) and not groups and not locks


def _compare(environment: Environment, screen: Screen) -> bool:
    screen.step("Stopping the writers, waiting for the last change, comparing")
    for writer in environment.writers:
        writer.stop()

    def look() -> bool:
        states = _states(environment)
        return len(states) == len(environment.sources) and all(state["sync"]["synced"] for state in states.values())

    _follow(environment, look, 0.5)
    written = sum(writer.transactions for writer in environment.writers)
    screen.say(f"  {written:,} transactions were written since the copy began\n")
    screen.say(f"  {'shard':18} {'rows':>9} {'in target':>9}  {'checksum':16}  {'in target':16}")
    equal = True
    for shard in environment.shards:
        first, last = shard.offset, shard.offset + RANGE
        here = checksum(shard.server, shard.name, first, last)
        there = checksum(environment.target, "shop.orders", first, last)
        equal = equal and here == there
        mark = screen.good("✓") if here == there else screen.bad("✗ DIFFERENT")
        name = f"{shard.schema}.{shard.table}"
        screen.say(f"  {name:18} {here.rows:>9,} {there.rows:>9,}  {here.checksum}  {there.checksum}  {mark}")
    verdict = "EQUAL: the target has every row of every shard" if equal else "DIFFERENT: see the table above"
    screen.say(f"\n  {screen.good(verdict) if equal else screen.bad(verdict)}")
    return equal


def _say_what_next(screen: Screen) -> None:
    screen.step("What to try next")
    screen.say("  make demo KEEP=1            the same, and the cluster stays up to work with")
    screen.say("  make demo TARGET=tidb       the same into a TiDB, which is built from its Go module first")
    screen.say("  docs/operations.md          every command, and what to do when a task stops")
    screen.say("  configs/task-sharded.yaml   a task file for your own shards; configs/ explains every key")


def _say_how_to_go_on(environment: Environment, screen: Screen) -> None:
    pids = environment.cluster.dir / "demo.pids"
    processes = (*environment.cluster.workers, environment.cluster.master, *environment.servers)
    pids.write_text(" ".join(str(process.pid) for process in processes))
    screen.step("The cluster stays up. What to try next")
    screen.say(f"  export DM_MASTER_ADDR={environment.cluster.master.address}")
    dmctl = " ".join(program("dmctl.cli"))
    for command in ("query-status demo", "list-member", "pause-task demo", "resume-task demo"):
        screen.say(f"  {dmctl} {command}")
    screen.say(f"  mariadb -h127.0.0.1 -uroot -P{environment.upstreams[0].port} shop_01    # an upstream")
    screen.say(f"  mariadb -h127.0.0.1 -uroot -P{environment.target.port} shop       # the target")
    screen.say(f"  kill $(cat {pids})    # stops everything")


def _states(environment: Environment) -> States:
    """``query-status demo`` by source; raises ``HarnessError`` for a subtask with an error."""
    states = environment.cluster.subtasks("demo")
    for source, state in states.items():
        for error in (state["result"] or {}).get("errors") or []:
            raise HarnessError(f"{source}: {error['Message']}")
    return dict(sorted(states.items()))


def _follow(environment: Environment, look: Callable[[], bool], pause: float) -> None:
    """Calls ``look`` until it returns true."""
    end = time.monotonic() + WAIT_TIMEOUT
    while not look():
        if time.monotonic() > end:
            raise HarnessError(f"not done within {WAIT_TIMEOUT:.0f} s\n{environment.cluster.logs()}")
        time.sleep(pause)
