"""Plans the range of a batch again, in smaller batches, if the batch is too large for a transaction of the target."""

from __future__ import annotations

from collections.abc import Callable

from dm_worker.syncer.checkpoint.meta_store import MetaStore
from dm_worker.syncer.planning.batch import Batch
from dm_worker.syncer.planning.server_switch import uncertain_gtids
from pkg.binlog.gtid import parse_gtid_set
from pkg.binlog.position import Location, Position, location_range
from pkg.config.model import SubTaskConfig
from pkg.errors import DMError
from pkg.process.log import get_logger

log = get_logger("syncer")


class TooMuchAtOnce(Exception):
    """The target refused a bucket of a batch for its size. ``number``: of the first attempt at the batch in this run;
    ``redone``: an earlier run began it. The task stops with ``error`` if smaller batches are impossible."""

    def __init__(self, batch: Batch, number: int, redone: bool, error: DMError) -> None:
        super().__init__(batch, number, redone, error)
        self.batch = batch
        self.number = number
        self.redone = redone
        self.error = error


def prepare_smaller_batches(
    cfg: SubTaskConfig, store: MetaStore, refused: TooMuchAtOnce, fence: Callable[[], None]
) -> None:
    """Returns if the batch's range may be applied again from its start, in other batches; sets where safe mode ends.
    After ``fence``, no task of the batch can write any more.

    If a bucket is applied, its rows are written a second time, which needs safe mode and is not possible for rows that
    may be written only once. Raises the batch's error in that case, for merged shards, whose held rows are located by
    batches, and if the batch is a single event.
    """
    batch = refused.batch
    if cfg.shard_mode or batch.rows_events < 2:
        raise refused.error
    fence()
    partly = refused.redone or store.has_bucket_of(refused.number)
    if partly:
        leave = _end_of_transaction(cfg, batch)
        if leave is None or any(plan.only_once for plan in batch.plans.values()):
            raise refused.error
        store.exit_safe = _later(cfg, leave, store.exit_safe)
    log.warning(
        "the batch is more than the target takes in a transaction: its rows are applied in smaller batches",
        range=location_range(batch.start, batch.end),
        bytes=batch.size,
        safe_mode=partly,
        error=refused.error.raw_cause,
    )


def _end_of_transaction(cfg: SubTaskConfig, batch: Batch) -> Location | None:
    """The batch's end. If that is inside a transaction: a location after all of that transaction's rows, and before
    the next one's; None if there is no such location."""
    end = batch.end
    if cfg.enable_gtid:
        upto = uncertain_gtids(batch.start, end, cfg.flavor)
        return None if upto is None else Location(end.position, upto)
    if end.rows_events:
        # All locations inside a transaction have the position of the transaction's start.
        return Location(Position(end.position.name, end.position.pos + 1), end.gtid_set)
    return end


def _later(cfg: SubTaskConfig, leave: Location, known: Location | None) -> Location:
    """Where safe mode ends; safe mode may hold already."""
    if known is None:
        return leave
    if cfg.enable_gtid:
        both = parse_gtid_set(leave.gtid_set, cfg.flavor)
        both.update(parse_gtid_set(known.gtid_set, cfg.flavor))  # type: ignore[arg-type]
        return Location(leave.position, str(both))
    return max(leave, known, key=lambda one: one.position)
