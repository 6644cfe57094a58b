"""Where a run begins to read, how long it is in safe mode, and how far it goes back after a switch of the upstream."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from dm_worker.syncer.checkpoint.meta_store import DurableState, MetaStore
from dm_worker.syncer.checkpoint.protocol import BatchProgress, Recovery, recover
from dm_worker.syncer.checkpoint.start_location import start_location
from dm_worker.syncer.planning.server_switch import ServerSwitched, SwitchSurvey, switch_error, uncertain_gtids
from dm_worker.syncer.planning.table_resolution import Resolve
from dm_worker.syncer.rows.server_lookup import ServerLookup
from dm_worker.syncer.shard_ddl.reread import RereadPass
from dm_worker.syncer.unit.failover import ensure_keys
from dm_worker.syncer.unit.stream_opener import StreamOpener
from pkg.binlog.gtid import parse_gtid_set
from pkg.binlog.position import Location
from pkg.config.model import SubTaskConfig
from pkg.process.log import get_logger

log = get_logger("syncer")


def recovery_of(
    cfg: SubTaskConfig,
    store: MetaStore,
    upstream: ServerLookup,
    opener: StreamOpener,
    durable: DurableState,
    reread: RereadPass | None,
) -> Recovery:
    """Where to continue from the durable state; sets where ``store`` leaves safe mode. Raises DMError."""
    fallback: Location | None = None
    if durable.checkpoint is None:
        fallback, store.exit_safe = start_location(cfg)
    main = None if reread is None else reread.end
    recovery = recover(durable.progress, durable.checkpoint, fallback, main)
    assert recovery is not None
    if durable.exit_safe is not None:
        store.exit_safe = durable.exit_safe
    if recovery.safe and cfg.syncer.safe_mode_duration != 0:
        # What is after this checkpoint may be applied already, but nothing that the upstream writes from now on.
        store.exit_safe = upstream.end_of_binlog(cfg.flavor)
        log.warning("the checkpoint was written by another program: starting in safe mode", until=str(store.exit_safe))
    if store.exit_safe is not None:
        log.info("enable safe-mode for safe mode exit point", until=str(store.exit_safe))
    return replace(recovery, location=opener.with_gtid(recovery.location))


def is_unsafe(cfg: SubTaskConfig, exit_safe: Location | None, location: Location) -> bool:
    """Whether the target may already have the changes after ``location``; safe mode ends at ``exit_safe``."""
    if cfg.syncer.safe_mode:
        return True
    if exit_safe is None:
        return False
    if cfg.enable_gtid:
        passed = parse_gtid_set(location.gtid_set, cfg.flavor)
        return not passed.contains(parse_gtid_set(exit_safe.gtid_set, cfg.flavor))  # type: ignore[arg-type]
    return location.position < exit_safe.position


def start_after_switch(
    cfg: SubTaskConfig,
    store: MetaStore,
    opener: StreamOpener,
    resolve: Resolve,
    switch: ServerSwitched,
    *,
    applied: Location,
    redo: BatchProgress | None,
    should_stop: Callable[[], bool],
) -> Location | None:
    """Where to read again, in safe mode, so that all unfinished work is applied from the start of its transactions.

    ``redo`` is the unfinished range, if there is one. None when the planner output nothing of a transaction. Raises
    DMError where going back could lose or double rows.
    """
    start, end = (redo.start, redo.end) if redo is not None else (applied, applied)
    if redo is None and not start.rows_events:
        return None
    upto = uncertain_gtids(start, end, cfg.flavor) if cfg.enable_gtid else None
    if upto is None:
        raise switch_error(switch, "without GTIDs the same transaction cannot be found")
    if cfg.shard_mode:
        raise switch_error(switch, "and the rows that merged shards hold back are located by it")
    begin = start.at_transaction_start()
    log.warning(
        "the upstream is another server: unfinished transactions are applied again in safe mode",
        stood_at=str(switch.location), found=switch.found, start=str(begin), end=upto,
    )  # fmt: skip
    with closing(opener.open(begin)) as stream:
        ensure_keys(stream, SwitchSurvey(begin, upto, cfg.flavor), resolve, switch, should_stop)
    leave = parse_gtid_set(upto, cfg.flavor)
    if store.exit_safe is not None:
        leave.update(parse_gtid_set(store.exit_safe.gtid_set, cfg.flavor))  # type: ignore[arg-type]
    store.exit_safe = Location(end.position, str(leave))
    return begin
