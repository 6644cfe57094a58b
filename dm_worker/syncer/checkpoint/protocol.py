"""The exactly-once protocol as a state machine: what is durable, and what a restart does with it. Pure.

Durable in the target, per upstream source: the batch row (:class:`BatchProgress`), one marker per bucket
(:class:`Marker`), the checkpoint. The order of events, each line one transaction:

1. a run starts: the epoch of batch row and markers goes up by one, so that writers of older runs fail;
2. the intent: batch row ``open`` with number, range, bucket count, fingerprint; checkpoint = start of the range; the
   XA transactions that are prepared there;
3. each bucket: its marker takes the batch's number and its rows are written;
4. the next intent, or ``idle`` with the checkpoint at the end of the range.

So the checkpoint is never ahead of the rows. A range that was begun is applied again by the same plan, and the markers
show which buckets are finished.

The states of the batch row::

         intent of a batch: open, of a statement: ddl
    idle ----------------------------------------> open, ddl ----+
     ^                                               |     ^     |
     +--------- done: checkpoint at its end ---------+     +-----+
                                                    done: next intent, with the next number
                                                    open, after a restart: the same number under the same plan,
                                                    else the next one
                                                    open, after a task was lost: the next number

Each transaction commits only if its predecessor is there: a bucket's if its intent is, the next intent's if the last
write of the batch row is and all markers of the batch are. So a run notices a target that returned to an earlier state
before it writes anything there.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum

from dm_worker.syncer.planning.xa import PreparedLocations
from pkg.binlog.position import Location

IDLE, OPEN, DDL = "idle", "open", "ddl"
#: The error for a step out of order names this many of the run's last steps.
RECENT = 5


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The batch row. In state ``idle`` all up to ``end`` is applied; otherwise [start, end) is being applied.

    ``fingerprint`` is that of the whole plan, ``keyless`` that of the rules that distribute rows without a key.
    ``keyless_since``: a bucket whose marker has this number or a later one holds its rows without a key.
    ``prepared``: the XA transactions that wait for their XA COMMIT at the applied location.
    ``safe_request``: the operator's last request for safe mode that a run has fulfilled.
    """

    number: int
    epoch: int
    state: str
    start: Location
    end: Location
    buckets: int = 0
    fingerprint: str = ""
    safe: bool = False
    prepared: PreparedLocations = field(default_factory=dict)
    keyless: str = ""
    keyless_since: int = 0
    safe_request: int = 0


@dataclass(frozen=True, slots=True)
class AppliedBuckets:
    """How many buckets have applied batch ``number``."""

    number: int
    buckets: int


@dataclass(frozen=True, slots=True)
class Marker:
    """The last batch whose rows this bucket holds, and the epoch that may write to it."""

    batch: int
    epoch: int


class MarkerVerdict(Enum):
    """What a bucket's transaction read in its marker."""

    APPLY = "apply"
    APPLIED = "applied"
    FENCED = "fenced"
    LOST = "lost"


def judge_marker(marker: Marker | None, number: int, epoch: int) -> MarkerVerdict:
    """Whether batch ``number`` may still write to a bucket with this marker, or has done so already."""
    if marker is None:
        return MarkerVerdict.LOST
    if marker.epoch != epoch:
        return MarkerVerdict.FENCED
    if marker.batch == number:
        return MarkerVerdict.APPLIED
    return MarkerVerdict.APPLY if marker.batch < number else MarkerVerdict.FENCED


@dataclass(frozen=True, slots=True)
class Recovery:
    """How a run starts.

    ``location``: where to read from. ``redo``: the range that must be planned again exactly, None when there is none.
    ``safe``: the target may already hold changes from after ``location`` (a checkpoint that is not ours).
    ``prepared``: the XA transactions that wait there; none are known at a checkpoint that is not ours.
    """

    location: Location
    redo: BatchProgress | None = None
    safe: bool = False
    prepared: PreparedLocations = field(default_factory=dict)


def recover(
    progress: BatchProgress | None, checkpoint: Location | None, fallback: Location | None, main: Location | None = None
) -> Recovery | None:
    """Where a run begins, by the durable state; None when it has no location.

    ``fallback`` is the start of a task that has no checkpoint yet. A checkpoint that does not belong to the batch row
    was written by DM or edited by hand: it decides, but what is after it may be applied, hence safe mode.
    While rows of merged shards are read again, the checkpoint stays at ``main`` and the batch row is elsewhere.
    """
    if checkpoint is None:
        return None if fallback is None else Recovery(fallback)
    if progress is None:
        return Recovery(checkpoint, safe=True)
    expected = progress.end if progress.state == IDLE else progress.start
    if not same_place(main or expected, checkpoint):
        return Recovery(checkpoint, safe=True)
    return Recovery(expected, redo=progress if progress.state == OPEN else None, prepared=progress.prepared)


def same_place(one: Location, other: Location) -> bool:
    """Whether two locations name the same transaction (the checkpoint row does not count rows events)."""
    return one.position == other.position and one.gtid_set == other.gtid_set


class Sequencer:
    """Numbers batches and decides what becomes durable when. One per run; the shell writes what it returns."""

    def __init__(
        self,
        epoch: int,
        last: BatchProgress | None,
        start: Location,
        prepared: PreparedLocations | None = None,
        safe_request: int = 0,
    ) -> None:
        """``safe_request``: the operator's request to apply the batch that is open now in safe mode; 0 for none.
        It is fulfilled once: the next durable step records that, also when no batch is open."""
        met = last.safe_request if last is not None else 0
        self._safe_request = safe_request or met
        self._ask_safe = self._safe_request != met
        self.epoch = epoch
        self._number = last.number if last is not None else 0
        self._open: BatchProgress | None = None
        self._recent: deque[str] = deque(maxlen=RECENT)
        #: All before this is applied.
        self.applied = start
        #: The XA transactions that wait at the main pass's location.
        self.prepared: PreparedLocations = prepared or {}

    def go_back(self, start: Location) -> None:
        """What is after ``start``, where an unfinished range or transaction begins, is applied again."""
        self.applied = start
        self._open = None
        self._recent.append(f"back to {start.position}")

    def open(
        self,
        start: Location,
        end: Location,
        *,
        buckets: int,
        fingerprint: str,
        safe: bool,
        state: str = OPEN,
        keyless: str = "",
    ) -> BatchProgress:
        """The intent to apply [start, end). The one before must be done."""
        if self._open is not None:
            raise self._out_of_order("a batch may begin only when the one before is complete")
        self._number += 1
        self._open = BatchProgress(
            number=self._number,
            epoch=self.epoch,
            state=state,
            start=start,
            end=end,
            buckets=buckets,
            fingerprint=fingerprint,
            safe=safe,
            prepared=self.prepared,
            keyless=keyless,
            keyless_since=self._number,
            safe_request=self._safe_request,
        )
        self._recent.append(f"{state} {self._number}")
        return self._open

    def redo(self, last: BatchProgress, fingerprint: str, keyless: str = "") -> BatchProgress:
        """The intent to finish ``last``, whose range was planned again.

        Under the same plan, finished buckets are skipped by their markers. Under another plan, rows with a key may move
        to other buckets: the range gets a new number, and safe mode writes all of them again. Rows without a key
        can't be written again; only few settings decide their bucket, so the markers still show which are applied.
        If the operator asked for safe mode, the same plan is treated as another one.
        """
        same = fingerprint == last.fingerprint and not self._ask_safe
        if not same:
            self._number += 1
        number = last.number if same else self._number
        keyless_since = last.keyless_since if same or keyless == last.keyless else number
        self._open = replace(
            last,
            number=number,
            epoch=self.epoch,
            fingerprint=fingerprint,
            safe=last.safe or not same,
            keyless=keyless,
            keyless_since=keyless_since,
            safe_request=self._safe_request,
        )
        self._recent.append(f"redo {last.number} as {number}")
        return self._open

    def fence(self) -> BatchProgress:
        """The open intent under a new number. Once it is durable, tasks of the former number that may still run, such
        as those of a lost executor, cannot write any more; the markers show what they wrote before."""
        if self._open is None:
            raise self._out_of_order("no batch is open")
        self._number += 1
        self._open = replace(self._open, number=self._number, safe=True)
        self._recent.append(f"fence {self._number}")
        return self._open

    def done(self, prepared: PreparedLocations | None = None) -> None:
        """All buckets of the open batch are applied. ``prepared`` are the XA transactions that wait at its end, when
        they differ from those of its start."""
        if self._open is None:
            raise self._out_of_order("no batch is open")
        self._recent.append(f"done {self._open.number}")
        self.applied = self._open.end
        self.prepared = self.prepared if prepared is None else prepared
        self._open = None

    def idle(self, location: Location, prepared: PreparedLocations | None = None) -> BatchProgress:
        """Nothing is in progress, and all up to ``location`` is applied (filtered events move it without a batch).

        ``prepared`` as in :meth:`done`.
        """
        if self._open is not None:
            raise self._out_of_order("a batch is open")
        self._recent.append(f"idle at {location.position}")
        self.applied = location
        self.prepared = self.prepared if prepared is None else prepared
        return BatchProgress(
            self._number, self.epoch, IDLE, location, location, prepared=self.prepared, safe_request=self._safe_request
        )

    def _out_of_order(self, problem: str) -> AssertionError:
        """A defect of the caller: nothing durable was changed."""
        return AssertionError(f"{problem}; last steps of this run: {'; '.join(self._recent) or 'none'}")
