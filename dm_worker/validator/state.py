"""What a validator knows: see :class:`dm_worker.validator.validator.Validator`."""

from __future__ import annotations

from dataclasses import dataclass, field

from dm_worker.validator.earlier_changes import EarlierChanges
from dm_worker.validator.store import Progress, TableState
from dm_worker.validator.verdicts import ErrorList, Judge
from pkg.binlog.position import Location, Position
from pkg.errors import DMError
from pkg.mysql.names import TableId

NOWHERE = Location(Position("", 0))
NO_PROGRESS = Progress(NOWHERE, (0, 0, 0))


@dataclass(slots=True)
class ValidatorState:
    """What the threads share, under the validator's lock."""

    judge: Judge = field(default_factory=Judge)
    errors: ErrorList = field(default_factory=ErrorList)
    progress: Progress = NO_PROGRESS
    tables: dict[TableId, TableState] = field(default_factory=dict)
    #: The syncer's last location; and up to where all changes are compared, or wait for it. None: it is not known what
    #: an earlier process compared.
    reached: Location = NOWHERE
    covered: Location | None = None
    #: The location from which this process takes batches.
    first: Location | None = None
    failure: DMError | None = None
    #: What the sweep has to compare for a start by time; None when that is done.
    earlier: EarlierChanges | None = None
