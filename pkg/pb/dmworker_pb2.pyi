from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DiffOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidDiffOp: _ClassVar[DiffOp]
    StartDiff: _ClassVar[DiffOp]
    StopDiff: _ClassVar[DiffOp]
    ShowDiff: _ClassVar[DiffOp]

class TaskOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidOp: _ClassVar[TaskOp]
    Stop: _ClassVar[TaskOp]
    Pause: _ClassVar[TaskOp]
    Resume: _ClassVar[TaskOp]
    Start: _ClassVar[TaskOp]
    Update: _ClassVar[TaskOp]
    AutoResume: _ClassVar[TaskOp]
    Delete: _ClassVar[TaskOp]

class Stage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidStage: _ClassVar[Stage]
    New: _ClassVar[Stage]
    Running: _ClassVar[Stage]
    Paused: _ClassVar[Stage]
    Stopped: _ClassVar[Stage]
    Finished: _ClassVar[Stage]
    Pausing: _ClassVar[Stage]
    Resuming: _ClassVar[Stage]
    Stopping: _ClassVar[Stage]

class UnitType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidUnit: _ClassVar[UnitType]
    Check: _ClassVar[UnitType]
    Dump: _ClassVar[UnitType]
    Load: _ClassVar[UnitType]
    Sync: _ClassVar[UnitType]
    Relay: _ClassVar[UnitType]

class RelayOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidRelayOp: _ClassVar[RelayOp]
    StopRelay: _ClassVar[RelayOp]
    PauseRelay: _ClassVar[RelayOp]
    ResumeRelay: _ClassVar[RelayOp]

class SchemaOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidSchemaOp: _ClassVar[SchemaOp]
    GetSchema: _ClassVar[SchemaOp]
    SetSchema: _ClassVar[SchemaOp]
    RemoveSchema: _ClassVar[SchemaOp]
    ListSchema: _ClassVar[SchemaOp]
    ListTable: _ClassVar[SchemaOp]
    ListMigrateTargets: _ClassVar[SchemaOp]

class V1MetaOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidV1MetaOp: _ClassVar[V1MetaOp]
    GetV1Meta: _ClassVar[V1MetaOp]
    RemoveV1Meta: _ClassVar[V1MetaOp]

class ErrorOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidErrorOp: _ClassVar[ErrorOp]
    Skip: _ClassVar[ErrorOp]
    Replace: _ClassVar[ErrorOp]
    Revert: _ClassVar[ErrorOp]
    Inject: _ClassVar[ErrorOp]
    List: _ClassVar[ErrorOp]

class ValidatorOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidValidatorOp: _ClassVar[ValidatorOp]
    StartValidator: _ClassVar[ValidatorOp]
    StopValidator: _ClassVar[ValidatorOp]

class ValidateErrorState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidErr: _ClassVar[ValidateErrorState]
    NewErr: _ClassVar[ValidateErrorState]
    IgnoredErr: _ClassVar[ValidateErrorState]
    ResolvedErr: _ClassVar[ValidateErrorState]

class ValidationErrOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidErrOp: _ClassVar[ValidationErrOp]
    IgnoreErrOp: _ClassVar[ValidationErrOp]
    ResolveErrOp: _ClassVar[ValidationErrOp]
    ClearErrOp: _ClassVar[ValidationErrOp]
InvalidDiffOp: DiffOp
StartDiff: DiffOp
StopDiff: DiffOp
ShowDiff: DiffOp
InvalidOp: TaskOp
Stop: TaskOp
Pause: TaskOp
Resume: TaskOp
Start: TaskOp
Update: TaskOp
AutoResume: TaskOp
Delete: TaskOp
InvalidStage: Stage
New: Stage
Running: Stage
Paused: Stage
Stopped: Stage
Finished: Stage
Pausing: Stage
Resuming: Stage
Stopping: Stage
InvalidUnit: UnitType
Check: UnitType
Dump: UnitType
Load: UnitType
Sync: UnitType
Relay: UnitType
InvalidRelayOp: RelayOp
StopRelay: RelayOp
PauseRelay: RelayOp
ResumeRelay: RelayOp
InvalidSchemaOp: SchemaOp
GetSchema: SchemaOp
SetSchema: SchemaOp
RemoveSchema: SchemaOp
ListSchema: SchemaOp
ListTable: SchemaOp
ListMigrateTargets: SchemaOp
InvalidV1MetaOp: V1MetaOp
GetV1Meta: V1MetaOp
RemoveV1Meta: V1MetaOp
InvalidErrorOp: ErrorOp
Skip: ErrorOp
Replace: ErrorOp
Revert: ErrorOp
Inject: ErrorOp
List: ErrorOp
InvalidValidatorOp: ValidatorOp
StartValidator: ValidatorOp
StopValidator: ValidatorOp
InvalidErr: ValidateErrorState
NewErr: ValidateErrorState
IgnoredErr: ValidateErrorState
ResolvedErr: ValidateErrorState
InvalidErrOp: ValidationErrOp
IgnoreErrOp: ValidationErrOp
ResolveErrOp: ValidationErrOp
ClearErrOp: ValidationErrOp

class HoldSubTaskRequest(_message.Message):
    __slots__ = ("task", "source", "binlogName", "binlogPos", "binlogGTID", "seconds")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    BINLOGNAME_FIELD_NUMBER: _ClassVar[int]
    BINLOGPOS_FIELD_NUMBER: _ClassVar[int]
    BINLOGGTID_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    task: str
    source: str
    binlogName: str
    binlogPos: int
    binlogGTID: str
    seconds: float
    def __init__(self, task: _Optional[str] = ..., source: _Optional[str] = ..., binlogName: _Optional[str] = ..., binlogPos: _Optional[int] = ..., binlogGTID: _Optional[str] = ..., seconds: _Optional[float] = ...) -> None: ...

class HoldSubTaskResponse(_message.Message):
    __slots__ = ("result", "msg", "source", "worker", "binlogName", "binlogPos", "binlogGTID")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    BINLOGNAME_FIELD_NUMBER: _ClassVar[int]
    BINLOGPOS_FIELD_NUMBER: _ClassVar[int]
    BINLOGGTID_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    source: str
    worker: str
    binlogName: str
    binlogPos: int
    binlogGTID: str
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., source: _Optional[str] = ..., worker: _Optional[str] = ..., binlogName: _Optional[str] = ..., binlogPos: _Optional[int] = ..., binlogGTID: _Optional[str] = ...) -> None: ...

class ReleaseSubTaskRequest(_message.Message):
    __slots__ = ("task", "source")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    task: str
    source: str
    def __init__(self, task: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class DiffOptions(_message.Message):
    __slots__ = ("tables", "sample", "lock", "redact", "threads", "bytesPerSecond", "mostLag", "repair", "chunkRows")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    REDACT_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    BYTESPERSECOND_FIELD_NUMBER: _ClassVar[int]
    MOSTLAG_FIELD_NUMBER: _ClassVar[int]
    REPAIR_FIELD_NUMBER: _ClassVar[int]
    CHUNKROWS_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedScalarFieldContainer[str]
    sample: float
    lock: bool
    redact: bool
    threads: int
    bytesPerSecond: int
    mostLag: int
    repair: bool
    chunkRows: int
    def __init__(self, tables: _Optional[_Iterable[str]] = ..., sample: _Optional[float] = ..., lock: _Optional[bool] = ..., redact: _Optional[bool] = ..., threads: _Optional[int] = ..., bytesPerSecond: _Optional[int] = ..., mostLag: _Optional[int] = ..., repair: _Optional[bool] = ..., chunkRows: _Optional[int] = ...) -> None: ...

class OperateDiffWorkerRequest(_message.Message):
    __slots__ = ("op", "task", "options", "run", "sources")
    OP_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    op: DiffOp
    task: str
    options: DiffOptions
    run: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, op: _Optional[_Union[DiffOp, str]] = ..., task: _Optional[str] = ..., options: _Optional[_Union[DiffOptions, _Mapping]] = ..., run: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ...) -> None: ...

class OperateServersDiffRequest(_message.Message):
    __slots__ = ("op", "name", "options", "run", "upstreams", "sources", "settleSeconds", "outputDir")
    OP_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    UPSTREAMS_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    SETTLESECONDS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTDIR_FIELD_NUMBER: _ClassVar[int]
    op: DiffOp
    name: str
    options: DiffOptions
    run: str
    upstreams: _containers.RepeatedScalarFieldContainer[str]
    sources: _containers.RepeatedScalarFieldContainer[str]
    settleSeconds: float
    outputDir: str
    def __init__(self, op: _Optional[_Union[DiffOp, str]] = ..., name: _Optional[str] = ..., options: _Optional[_Union[DiffOptions, _Mapping]] = ..., run: _Optional[str] = ..., upstreams: _Optional[_Iterable[str]] = ..., sources: _Optional[_Iterable[str]] = ..., settleSeconds: _Optional[float] = ..., outputDir: _Optional[str] = ...) -> None: ...

class OperateServersDiffResponse(_message.Message):
    __slots__ = ("result", "msg", "sources")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[DiffSourceStatus]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[DiffSourceStatus, _Mapping]]] = ...) -> None: ...

class DiffTableStatus(_message.Message):
    __slots__ = ("target", "sources", "state", "reason", "rows", "bytes", "totalRows", "chunks", "chunksDone", "missing", "extra", "changed", "doubled", "firstKeys", "how", "position", "repaired")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTALROWS_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    CHUNKSDONE_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    DOUBLED_FIELD_NUMBER: _ClassVar[int]
    FIRSTKEYS_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    REPAIRED_FIELD_NUMBER: _ClassVar[int]
    target: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    state: str
    reason: str
    rows: int
    bytes: int
    totalRows: int
    chunks: int
    chunksDone: int
    missing: int
    extra: int
    changed: int
    doubled: int
    firstKeys: _containers.RepeatedScalarFieldContainer[str]
    how: str
    position: str
    repaired: int
    def __init__(self, target: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ..., totalRows: _Optional[int] = ..., chunks: _Optional[int] = ..., chunksDone: _Optional[int] = ..., missing: _Optional[int] = ..., extra: _Optional[int] = ..., changed: _Optional[int] = ..., doubled: _Optional[int] = ..., firstKeys: _Optional[_Iterable[str]] = ..., how: _Optional[str] = ..., position: _Optional[str] = ..., repaired: _Optional[int] = ...) -> None: ...

class DiffSourceStatus(_message.Message):
    __slots__ = ("result", "msg", "source", "worker", "stage", "started", "eta", "rows", "bytes", "totalRows", "differences", "repairs", "tables", "run")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTALROWS_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    REPAIRS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    source: str
    worker: str
    stage: str
    started: str
    eta: str
    rows: int
    bytes: int
    totalRows: int
    differences: str
    repairs: str
    tables: _containers.RepeatedCompositeFieldContainer[DiffTableStatus]
    run: str
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., source: _Optional[str] = ..., worker: _Optional[str] = ..., stage: _Optional[str] = ..., started: _Optional[str] = ..., eta: _Optional[str] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ..., totalRows: _Optional[int] = ..., differences: _Optional[str] = ..., repairs: _Optional[str] = ..., tables: _Optional[_Iterable[_Union[DiffTableStatus, _Mapping]]] = ..., run: _Optional[str] = ...) -> None: ...

class HandBackWorkerRequest(_message.Message):
    __slots__ = ("task", "execute")
    TASK_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_FIELD_NUMBER: _ClassVar[int]
    task: str
    execute: bool
    def __init__(self, task: _Optional[str] = ..., execute: _Optional[bool] = ...) -> None: ...

class QueryStatusRequest(_message.Message):
    __slots__ = ("name", "profile", "relayWorker")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    RELAYWORKER_FIELD_NUMBER: _ClassVar[int]
    name: str
    profile: bool
    relayWorker: bool
    def __init__(self, name: _Optional[str] = ..., profile: _Optional[bool] = ..., relayWorker: _Optional[bool] = ...) -> None: ...

class CommonWorkerResponse(_message.Message):
    __slots__ = ("result", "msg", "source", "worker")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    source: str
    worker: str
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., source: _Optional[str] = ..., worker: _Optional[str] = ...) -> None: ...

class QueryStatusResponse(_message.Message):
    __slots__ = ("result", "msg", "sourceStatus", "subTaskStatus")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCESTATUS_FIELD_NUMBER: _ClassVar[int]
    SUBTASKSTATUS_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sourceStatus: SourceStatus
    subTaskStatus: _containers.RepeatedCompositeFieldContainer[SubTaskStatus]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sourceStatus: _Optional[_Union[SourceStatus, _Mapping]] = ..., subTaskStatus: _Optional[_Iterable[_Union[SubTaskStatus, _Mapping]]] = ...) -> None: ...

class CheckStatus(_message.Message):
    __slots__ = ("passed", "total", "successful", "failed", "warning", "detail")
    PASSED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    SUCCESSFUL_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    passed: bool
    total: int
    successful: int
    failed: int
    warning: int
    detail: bytes
    def __init__(self, passed: _Optional[bool] = ..., total: _Optional[int] = ..., successful: _Optional[int] = ..., failed: _Optional[int] = ..., warning: _Optional[int] = ..., detail: _Optional[bytes] = ...) -> None: ...

class DumpStatus(_message.Message):
    __slots__ = ("totalTables", "completedTables", "finishedBytes", "finishedRows", "estimateTotalRows", "bps", "progress", "step")
    TOTALTABLES_FIELD_NUMBER: _ClassVar[int]
    COMPLETEDTABLES_FIELD_NUMBER: _ClassVar[int]
    FINISHEDBYTES_FIELD_NUMBER: _ClassVar[int]
    FINISHEDROWS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATETOTALROWS_FIELD_NUMBER: _ClassVar[int]
    BPS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    totalTables: int
    completedTables: float
    finishedBytes: float
    finishedRows: float
    estimateTotalRows: float
    bps: int
    progress: str
    step: str
    def __init__(self, totalTables: _Optional[int] = ..., completedTables: _Optional[float] = ..., finishedBytes: _Optional[float] = ..., finishedRows: _Optional[float] = ..., estimateTotalRows: _Optional[float] = ..., bps: _Optional[int] = ..., progress: _Optional[str] = ..., step: _Optional[str] = ...) -> None: ...

class LoadStatus(_message.Message):
    __slots__ = ("finishedBytes", "totalBytes", "progress", "metaBinlog", "metaBinlogGTID", "bps", "step", "totalTables", "completedTables", "totalRows", "finishedRows")
    FINISHEDBYTES_FIELD_NUMBER: _ClassVar[int]
    TOTALBYTES_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    METABINLOG_FIELD_NUMBER: _ClassVar[int]
    METABINLOGGTID_FIELD_NUMBER: _ClassVar[int]
    BPS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOTALTABLES_FIELD_NUMBER: _ClassVar[int]
    COMPLETEDTABLES_FIELD_NUMBER: _ClassVar[int]
    TOTALROWS_FIELD_NUMBER: _ClassVar[int]
    FINISHEDROWS_FIELD_NUMBER: _ClassVar[int]
    finishedBytes: int
    totalBytes: int
    progress: str
    metaBinlog: str
    metaBinlogGTID: str
    bps: int
    step: str
    totalTables: int
    completedTables: int
    totalRows: int
    finishedRows: int
    def __init__(self, finishedBytes: _Optional[int] = ..., totalBytes: _Optional[int] = ..., progress: _Optional[str] = ..., metaBinlog: _Optional[str] = ..., metaBinlogGTID: _Optional[str] = ..., bps: _Optional[int] = ..., step: _Optional[str] = ..., totalTables: _Optional[int] = ..., completedTables: _Optional[int] = ..., totalRows: _Optional[int] = ..., finishedRows: _Optional[int] = ...) -> None: ...

class ShardingGroup(_message.Message):
    __slots__ = ("target", "DDLs", "firstLocation", "synced", "unsynced", "heldRows", "waitingDDLs", "rereading")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    DDLS_FIELD_NUMBER: _ClassVar[int]
    FIRSTLOCATION_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    UNSYNCED_FIELD_NUMBER: _ClassVar[int]
    HELDROWS_FIELD_NUMBER: _ClassVar[int]
    WAITINGDDLS_FIELD_NUMBER: _ClassVar[int]
    REREADING_FIELD_NUMBER: _ClassVar[int]
    target: str
    DDLs: _containers.RepeatedScalarFieldContainer[str]
    firstLocation: str
    synced: _containers.RepeatedScalarFieldContainer[str]
    unsynced: _containers.RepeatedScalarFieldContainer[str]
    heldRows: int
    waitingDDLs: int
    rereading: bool
    def __init__(self, target: _Optional[str] = ..., DDLs: _Optional[_Iterable[str]] = ..., firstLocation: _Optional[str] = ..., synced: _Optional[_Iterable[str]] = ..., unsynced: _Optional[_Iterable[str]] = ..., heldRows: _Optional[int] = ..., waitingDDLs: _Optional[int] = ..., rereading: _Optional[bool] = ...) -> None: ...

class SyncStatus(_message.Message):
    __slots__ = ("totalEvents", "totalTps", "recentTps", "masterBinlog", "masterBinlogGtid", "syncerBinlog", "syncerBinlogGtid", "blockingDDLs", "unresolvedGroups", "synced", "binlogType", "secondsBehindMaster", "blockDDLOwner", "conflictMsg", "totalRows", "totalRps", "recentRps", "ioTotalBytes", "dumpIOTotalBytes", "takenOver", "targetDDL", "lagReason", "bytesBehind", "eta", "held", "ended", "streamSecondsBehind", "streamBytesBehind", "streamLagReason")
    TOTALEVENTS_FIELD_NUMBER: _ClassVar[int]
    TOTALTPS_FIELD_NUMBER: _ClassVar[int]
    RECENTTPS_FIELD_NUMBER: _ClassVar[int]
    MASTERBINLOG_FIELD_NUMBER: _ClassVar[int]
    MASTERBINLOGGTID_FIELD_NUMBER: _ClassVar[int]
    SYNCERBINLOG_FIELD_NUMBER: _ClassVar[int]
    SYNCERBINLOGGTID_FIELD_NUMBER: _ClassVar[int]
    BLOCKINGDDLS_FIELD_NUMBER: _ClassVar[int]
    UNRESOLVEDGROUPS_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    BINLOGTYPE_FIELD_NUMBER: _ClassVar[int]
    SECONDSBEHINDMASTER_FIELD_NUMBER: _ClassVar[int]
    BLOCKDDLOWNER_FIELD_NUMBER: _ClassVar[int]
    CONFLICTMSG_FIELD_NUMBER: _ClassVar[int]
    TOTALROWS_FIELD_NUMBER: _ClassVar[int]
    TOTALRPS_FIELD_NUMBER: _ClassVar[int]
    RECENTRPS_FIELD_NUMBER: _ClassVar[int]
    IOTOTALBYTES_FIELD_NUMBER: _ClassVar[int]
    DUMPIOTOTALBYTES_FIELD_NUMBER: _ClassVar[int]
    TAKENOVER_FIELD_NUMBER: _ClassVar[int]
    TARGETDDL_FIELD_NUMBER: _ClassVar[int]
    LAGREASON_FIELD_NUMBER: _ClassVar[int]
    BYTESBEHIND_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    STREAMSECONDSBEHIND_FIELD_NUMBER: _ClassVar[int]
    STREAMBYTESBEHIND_FIELD_NUMBER: _ClassVar[int]
    STREAMLAGREASON_FIELD_NUMBER: _ClassVar[int]
    totalEvents: int
    totalTps: int
    recentTps: int
    masterBinlog: str
    masterBinlogGtid: str
    syncerBinlog: str
    syncerBinlogGtid: str
    blockingDDLs: _containers.RepeatedScalarFieldContainer[str]
    unresolvedGroups: _containers.RepeatedCompositeFieldContainer[ShardingGroup]
    synced: bool
    binlogType: str
    secondsBehindMaster: int
    blockDDLOwner: str
    conflictMsg: str
    totalRows: int
    totalRps: int
    recentRps: int
    ioTotalBytes: int
    dumpIOTotalBytes: int
    takenOver: str
    targetDDL: str
    lagReason: str
    bytesBehind: int
    eta: str
    held: str
    ended: str
    streamSecondsBehind: int
    streamBytesBehind: int
    streamLagReason: str
    def __init__(self, totalEvents: _Optional[int] = ..., totalTps: _Optional[int] = ..., recentTps: _Optional[int] = ..., masterBinlog: _Optional[str] = ..., masterBinlogGtid: _Optional[str] = ..., syncerBinlog: _Optional[str] = ..., syncerBinlogGtid: _Optional[str] = ..., blockingDDLs: _Optional[_Iterable[str]] = ..., unresolvedGroups: _Optional[_Iterable[_Union[ShardingGroup, _Mapping]]] = ..., synced: _Optional[bool] = ..., binlogType: _Optional[str] = ..., secondsBehindMaster: _Optional[int] = ..., blockDDLOwner: _Optional[str] = ..., conflictMsg: _Optional[str] = ..., totalRows: _Optional[int] = ..., totalRps: _Optional[int] = ..., recentRps: _Optional[int] = ..., ioTotalBytes: _Optional[int] = ..., dumpIOTotalBytes: _Optional[int] = ..., takenOver: _Optional[str] = ..., targetDDL: _Optional[str] = ..., lagReason: _Optional[str] = ..., bytesBehind: _Optional[int] = ..., eta: _Optional[str] = ..., held: _Optional[str] = ..., ended: _Optional[str] = ..., streamSecondsBehind: _Optional[int] = ..., streamBytesBehind: _Optional[int] = ..., streamLagReason: _Optional[str] = ...) -> None: ...

class SourceStatus(_message.Message):
    __slots__ = ("source", "worker", "result", "relayStatus", "purgeDistances", "disabled", "relayWorkers", "relayFollows")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RELAYSTATUS_FIELD_NUMBER: _ClassVar[int]
    PURGEDISTANCES_FIELD_NUMBER: _ClassVar[int]
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    RELAYWORKERS_FIELD_NUMBER: _ClassVar[int]
    RELAYFOLLOWS_FIELD_NUMBER: _ClassVar[int]
    source: str
    worker: str
    result: ProcessResult
    relayStatus: RelayStatus
    purgeDistances: _containers.RepeatedCompositeFieldContainer[PurgeDistance]
    disabled: bool
    relayWorkers: _containers.RepeatedScalarFieldContainer[str]
    relayFollows: bool
    def __init__(self, source: _Optional[str] = ..., worker: _Optional[str] = ..., result: _Optional[_Union[ProcessResult, _Mapping]] = ..., relayStatus: _Optional[_Union[RelayStatus, _Mapping]] = ..., purgeDistances: _Optional[_Iterable[_Union[PurgeDistance, _Mapping]]] = ..., disabled: _Optional[bool] = ..., relayWorkers: _Optional[_Iterable[str]] = ..., relayFollows: _Optional[bool] = ...) -> None: ...

class PurgeDistance(_message.Message):
    __slots__ = ("task", "risk", "needed", "oldest", "bytesBefore", "bytesNeeded", "retention", "secondsLeft", "text")
    TASK_FIELD_NUMBER: _ClassVar[int]
    RISK_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    BYTESBEFORE_FIELD_NUMBER: _ClassVar[int]
    BYTESNEEDED_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    SECONDSLEFT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    task: str
    risk: int
    needed: str
    oldest: str
    bytesBefore: int
    bytesNeeded: int
    retention: int
    secondsLeft: int
    text: str
    def __init__(self, task: _Optional[str] = ..., risk: _Optional[int] = ..., needed: _Optional[str] = ..., oldest: _Optional[str] = ..., bytesBefore: _Optional[int] = ..., bytesNeeded: _Optional[int] = ..., retention: _Optional[int] = ..., secondsLeft: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class RelayStatus(_message.Message):
    __slots__ = ("masterBinlog", "masterBinlogGtid", "relaySubDir", "relayBinlog", "relayBinlogGtid", "relayCatchUpMaster", "stage", "result", "secondsBehind", "bytesBehind", "lagReason")
    MASTERBINLOG_FIELD_NUMBER: _ClassVar[int]
    MASTERBINLOGGTID_FIELD_NUMBER: _ClassVar[int]
    RELAYSUBDIR_FIELD_NUMBER: _ClassVar[int]
    RELAYBINLOG_FIELD_NUMBER: _ClassVar[int]
    RELAYBINLOGGTID_FIELD_NUMBER: _ClassVar[int]
    RELAYCATCHUPMASTER_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    SECONDSBEHIND_FIELD_NUMBER: _ClassVar[int]
    BYTESBEHIND_FIELD_NUMBER: _ClassVar[int]
    LAGREASON_FIELD_NUMBER: _ClassVar[int]
    masterBinlog: str
    masterBinlogGtid: str
    relaySubDir: str
    relayBinlog: str
    relayBinlogGtid: str
    relayCatchUpMaster: bool
    stage: Stage
    result: ProcessResult
    secondsBehind: int
    bytesBehind: int
    lagReason: str
    def __init__(self, masterBinlog: _Optional[str] = ..., masterBinlogGtid: _Optional[str] = ..., relaySubDir: _Optional[str] = ..., relayBinlog: _Optional[str] = ..., relayBinlogGtid: _Optional[str] = ..., relayCatchUpMaster: _Optional[bool] = ..., stage: _Optional[_Union[Stage, str]] = ..., result: _Optional[_Union[ProcessResult, _Mapping]] = ..., secondsBehind: _Optional[int] = ..., bytesBehind: _Optional[int] = ..., lagReason: _Optional[str] = ...) -> None: ...

class SubTaskStatus(_message.Message):
    __slots__ = ("name", "stage", "unit", "result", "unresolvedDDLLockID", "msg", "check", "dump", "load", "sync", "validation", "profile", "cutover")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    UNRESOLVEDDDLLOCKID_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    DUMP_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    CUTOVER_FIELD_NUMBER: _ClassVar[int]
    name: str
    stage: Stage
    unit: UnitType
    result: ProcessResult
    unresolvedDDLLockID: str
    msg: str
    check: CheckStatus
    dump: DumpStatus
    load: LoadStatus
    sync: SyncStatus
    validation: ValidationStatus
    profile: TimeProfile
    cutover: CutoverWatchStatus
    def __init__(self, name: _Optional[str] = ..., stage: _Optional[_Union[Stage, str]] = ..., unit: _Optional[_Union[UnitType, str]] = ..., result: _Optional[_Union[ProcessResult, _Mapping]] = ..., unresolvedDDLLockID: _Optional[str] = ..., msg: _Optional[str] = ..., check: _Optional[_Union[CheckStatus, _Mapping]] = ..., dump: _Optional[_Union[DumpStatus, _Mapping]] = ..., load: _Optional[_Union[LoadStatus, _Mapping]] = ..., sync: _Optional[_Union[SyncStatus, _Mapping]] = ..., validation: _Optional[_Union[ValidationStatus, _Mapping]] = ..., profile: _Optional[_Union[TimeProfile, _Mapping]] = ..., cutover: _Optional[_Union[CutoverWatchStatus, _Mapping]] = ...) -> None: ...

class CutoverWatchStatus(_message.Message):
    __slots__ = ("agreed", "watched", "writes", "first", "file", "problem", "lastWrite", "replicatedBy")
    AGREED_FIELD_NUMBER: _ClassVar[int]
    WATCHED_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    LASTWRITE_FIELD_NUMBER: _ClassVar[int]
    REPLICATEDBY_FIELD_NUMBER: _ClassVar[int]
    agreed: str
    watched: str
    writes: int
    first: _containers.RepeatedScalarFieldContainer[str]
    file: str
    problem: str
    lastWrite: str
    replicatedBy: str
    def __init__(self, agreed: _Optional[str] = ..., watched: _Optional[str] = ..., writes: _Optional[int] = ..., first: _Optional[_Iterable[str]] = ..., file: _Optional[str] = ..., problem: _Optional[str] = ..., lastWrite: _Optional[str] = ..., replicatedBy: _Optional[str] = ...) -> None: ...

class TimeProfile(_message.Message):
    __slots__ = ("seconds", "sums")
    class SumsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    SUMS_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    sums: _containers.ScalarMap[str, float]
    def __init__(self, seconds: _Optional[float] = ..., sums: _Optional[_Mapping[str, float]] = ...) -> None: ...

class SubTaskStatusList(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _containers.RepeatedCompositeFieldContainer[SubTaskStatus]
    def __init__(self, status: _Optional[_Iterable[_Union[SubTaskStatus, _Mapping]]] = ...) -> None: ...

class CheckError(_message.Message):
    __slots__ = ("msg",)
    MSG_FIELD_NUMBER: _ClassVar[int]
    msg: str
    def __init__(self, msg: _Optional[str] = ...) -> None: ...

class DumpError(_message.Message):
    __slots__ = ("msg",)
    MSG_FIELD_NUMBER: _ClassVar[int]
    msg: str
    def __init__(self, msg: _Optional[str] = ...) -> None: ...

class LoadError(_message.Message):
    __slots__ = ("msg",)
    MSG_FIELD_NUMBER: _ClassVar[int]
    msg: str
    def __init__(self, msg: _Optional[str] = ...) -> None: ...

class SyncSQLError(_message.Message):
    __slots__ = ("msg", "failedBinlogPosition", "errorSQL")
    MSG_FIELD_NUMBER: _ClassVar[int]
    FAILEDBINLOGPOSITION_FIELD_NUMBER: _ClassVar[int]
    ERRORSQL_FIELD_NUMBER: _ClassVar[int]
    msg: str
    failedBinlogPosition: str
    errorSQL: str
    def __init__(self, msg: _Optional[str] = ..., failedBinlogPosition: _Optional[str] = ..., errorSQL: _Optional[str] = ...) -> None: ...

class SyncError(_message.Message):
    __slots__ = ("errors",)
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    errors: _containers.RepeatedCompositeFieldContainer[SyncSQLError]
    def __init__(self, errors: _Optional[_Iterable[_Union[SyncSQLError, _Mapping]]] = ...) -> None: ...

class SourceError(_message.Message):
    __slots__ = ("source", "worker", "SourceError", "RelayError")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SOURCEERROR_FIELD_NUMBER: _ClassVar[int]
    RELAYERROR_FIELD_NUMBER: _ClassVar[int]
    source: str
    worker: str
    SourceError: str
    RelayError: RelayError
    def __init__(self, source: _Optional[str] = ..., worker: _Optional[str] = ..., SourceError: _Optional[str] = ..., RelayError: _Optional[_Union[RelayError, _Mapping]] = ...) -> None: ...

class RelayError(_message.Message):
    __slots__ = ("msg",)
    MSG_FIELD_NUMBER: _ClassVar[int]
    msg: str
    def __init__(self, msg: _Optional[str] = ...) -> None: ...

class SubTaskError(_message.Message):
    __slots__ = ("name", "stage", "unit", "msg", "check", "dump", "load", "sync")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    DUMP_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    name: str
    stage: Stage
    unit: UnitType
    msg: str
    check: CheckError
    dump: DumpError
    load: LoadError
    sync: SyncError
    def __init__(self, name: _Optional[str] = ..., stage: _Optional[_Union[Stage, str]] = ..., unit: _Optional[_Union[UnitType, str]] = ..., msg: _Optional[str] = ..., check: _Optional[_Union[CheckError, _Mapping]] = ..., dump: _Optional[_Union[DumpError, _Mapping]] = ..., load: _Optional[_Union[LoadError, _Mapping]] = ..., sync: _Optional[_Union[SyncError, _Mapping]] = ...) -> None: ...

class SubTaskErrorList(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _containers.RepeatedCompositeFieldContainer[SubTaskError]
    def __init__(self, error: _Optional[_Iterable[_Union[SubTaskError, _Mapping]]] = ...) -> None: ...

class ProcessResult(_message.Message):
    __slots__ = ("isCanceled", "errors", "detail")
    ISCANCELED_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    isCanceled: bool
    errors: _containers.RepeatedCompositeFieldContainer[ProcessError]
    detail: bytes
    def __init__(self, isCanceled: _Optional[bool] = ..., errors: _Optional[_Iterable[_Union[ProcessError, _Mapping]]] = ..., detail: _Optional[bytes] = ...) -> None: ...

class ProcessError(_message.Message):
    __slots__ = ("ErrCode", "ErrClass", "ErrScope", "ErrLevel", "Message", "RawCause", "Workaround")
    ERRCODE_FIELD_NUMBER: _ClassVar[int]
    ERRCLASS_FIELD_NUMBER: _ClassVar[int]
    ERRSCOPE_FIELD_NUMBER: _ClassVar[int]
    ERRLEVEL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RAWCAUSE_FIELD_NUMBER: _ClassVar[int]
    WORKAROUND_FIELD_NUMBER: _ClassVar[int]
    ErrCode: int
    ErrClass: str
    ErrScope: str
    ErrLevel: str
    Message: str
    RawCause: str
    Workaround: str
    def __init__(self, ErrCode: _Optional[int] = ..., ErrClass: _Optional[str] = ..., ErrScope: _Optional[str] = ..., ErrLevel: _Optional[str] = ..., Message: _Optional[str] = ..., RawCause: _Optional[str] = ..., Workaround: _Optional[str] = ...) -> None: ...

class PurgeRelayRequest(_message.Message):
    __slots__ = ("inactive", "time", "filename", "subDir")
    INACTIVE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    SUBDIR_FIELD_NUMBER: _ClassVar[int]
    inactive: bool
    time: int
    filename: str
    subDir: str
    def __init__(self, inactive: _Optional[bool] = ..., time: _Optional[int] = ..., filename: _Optional[str] = ..., subDir: _Optional[str] = ...) -> None: ...

class OperateWorkerSchemaRequest(_message.Message):
    __slots__ = ("op", "task", "source", "database", "table", "schema", "flush", "sync", "fromSource", "fromTarget")
    OP_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    FLUSH_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    FROMSOURCE_FIELD_NUMBER: _ClassVar[int]
    FROMTARGET_FIELD_NUMBER: _ClassVar[int]
    op: SchemaOp
    task: str
    source: str
    database: str
    table: str
    schema: str
    flush: bool
    sync: bool
    fromSource: bool
    fromTarget: bool
    def __init__(self, op: _Optional[_Union[SchemaOp, str]] = ..., task: _Optional[str] = ..., source: _Optional[str] = ..., database: _Optional[str] = ..., table: _Optional[str] = ..., schema: _Optional[str] = ..., flush: _Optional[bool] = ..., sync: _Optional[bool] = ..., fromSource: _Optional[bool] = ..., fromTarget: _Optional[bool] = ...) -> None: ...

class V1SubTaskMeta(_message.Message):
    __slots__ = ("op", "stage", "name", "task")
    OP_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    op: TaskOp
    stage: Stage
    name: str
    task: bytes
    def __init__(self, op: _Optional[_Union[TaskOp, str]] = ..., stage: _Optional[_Union[Stage, str]] = ..., name: _Optional[str] = ..., task: _Optional[bytes] = ...) -> None: ...

class OperateV1MetaRequest(_message.Message):
    __slots__ = ("op",)
    OP_FIELD_NUMBER: _ClassVar[int]
    op: V1MetaOp
    def __init__(self, op: _Optional[_Union[V1MetaOp, str]] = ...) -> None: ...

class OperateV1MetaResponse(_message.Message):
    __slots__ = ("result", "msg", "meta")
    class MetaEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: V1SubTaskMeta
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[V1SubTaskMeta, _Mapping]] = ...) -> None: ...
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    meta: _containers.MessageMap[str, V1SubTaskMeta]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., meta: _Optional[_Mapping[str, V1SubTaskMeta]] = ...) -> None: ...

class HandleWorkerErrorRequest(_message.Message):
    __slots__ = ("op", "task", "binlogPos", "sqls")
    OP_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    BINLOGPOS_FIELD_NUMBER: _ClassVar[int]
    SQLS_FIELD_NUMBER: _ClassVar[int]
    op: ErrorOp
    task: str
    binlogPos: str
    sqls: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, op: _Optional[_Union[ErrorOp, str]] = ..., task: _Optional[str] = ..., binlogPos: _Optional[str] = ..., sqls: _Optional[_Iterable[str]] = ...) -> None: ...

class GetWorkerCfgRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetWorkerCfgResponse(_message.Message):
    __slots__ = ("cfg", "slots", "warnings")
    CFG_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    cfg: str
    slots: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cfg: _Optional[str] = ..., slots: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class CheckSubtasksCanUpdateRequest(_message.Message):
    __slots__ = ("subtaskCfgTomlString",)
    SUBTASKCFGTOMLSTRING_FIELD_NUMBER: _ClassVar[int]
    subtaskCfgTomlString: str
    def __init__(self, subtaskCfgTomlString: _Optional[str] = ...) -> None: ...

class CheckSubtasksCanUpdateResponse(_message.Message):
    __slots__ = ("success", "msg")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    success: bool
    msg: str
    def __init__(self, success: _Optional[bool] = ..., msg: _Optional[str] = ...) -> None: ...

class GetValidationStatusRequest(_message.Message):
    __slots__ = ("taskName", "filterStatus")
    TASKNAME_FIELD_NUMBER: _ClassVar[int]
    FILTERSTATUS_FIELD_NUMBER: _ClassVar[int]
    taskName: str
    filterStatus: Stage
    def __init__(self, taskName: _Optional[str] = ..., filterStatus: _Optional[_Union[Stage, str]] = ...) -> None: ...

class ValidationStatus(_message.Message):
    __slots__ = ("task", "source", "mode", "stage", "validatorBinlog", "validatorBinlogGtid", "result", "processedRowsStatus", "pendingRowsStatus", "errorRowsStatus", "cutoverBinlogPos", "cutoverBinlogGtid", "notes", "sweepStatus", "foreignWrites")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    VALIDATORBINLOG_FIELD_NUMBER: _ClassVar[int]
    VALIDATORBINLOGGTID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    PROCESSEDROWSSTATUS_FIELD_NUMBER: _ClassVar[int]
    PENDINGROWSSTATUS_FIELD_NUMBER: _ClassVar[int]
    ERRORROWSSTATUS_FIELD_NUMBER: _ClassVar[int]
    CUTOVERBINLOGPOS_FIELD_NUMBER: _ClassVar[int]
    CUTOVERBINLOGGTID_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    SWEEPSTATUS_FIELD_NUMBER: _ClassVar[int]
    FOREIGNWRITES_FIELD_NUMBER: _ClassVar[int]
    task: str
    source: str
    mode: str
    stage: Stage
    validatorBinlog: str
    validatorBinlogGtid: str
    result: ProcessResult
    processedRowsStatus: str
    pendingRowsStatus: str
    errorRowsStatus: str
    cutoverBinlogPos: str
    cutoverBinlogGtid: str
    notes: _containers.RepeatedScalarFieldContainer[str]
    sweepStatus: str
    foreignWrites: str
    def __init__(self, task: _Optional[str] = ..., source: _Optional[str] = ..., mode: _Optional[str] = ..., stage: _Optional[_Union[Stage, str]] = ..., validatorBinlog: _Optional[str] = ..., validatorBinlogGtid: _Optional[str] = ..., result: _Optional[_Union[ProcessResult, _Mapping]] = ..., processedRowsStatus: _Optional[str] = ..., pendingRowsStatus: _Optional[str] = ..., errorRowsStatus: _Optional[str] = ..., cutoverBinlogPos: _Optional[str] = ..., cutoverBinlogGtid: _Optional[str] = ..., notes: _Optional[_Iterable[str]] = ..., sweepStatus: _Optional[str] = ..., foreignWrites: _Optional[str] = ...) -> None: ...

class ValidationTableStatus(_message.Message):
    __slots__ = ("source", "srcTable", "dstTable", "stage", "message")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SRCTABLE_FIELD_NUMBER: _ClassVar[int]
    DSTTABLE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    source: str
    srcTable: str
    dstTable: str
    stage: Stage
    message: str
    def __init__(self, source: _Optional[str] = ..., srcTable: _Optional[str] = ..., dstTable: _Optional[str] = ..., stage: _Optional[_Union[Stage, str]] = ..., message: _Optional[str] = ...) -> None: ...

class GetValidationStatusResponse(_message.Message):
    __slots__ = ("result", "msg", "validators", "tableStatuses")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    VALIDATORS_FIELD_NUMBER: _ClassVar[int]
    TABLESTATUSES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    validators: _containers.RepeatedCompositeFieldContainer[ValidationStatus]
    tableStatuses: _containers.RepeatedCompositeFieldContainer[ValidationTableStatus]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., validators: _Optional[_Iterable[_Union[ValidationStatus, _Mapping]]] = ..., tableStatuses: _Optional[_Iterable[_Union[ValidationTableStatus, _Mapping]]] = ...) -> None: ...

class GetValidationErrorRequest(_message.Message):
    __slots__ = ("errState", "taskName")
    ERRSTATE_FIELD_NUMBER: _ClassVar[int]
    TASKNAME_FIELD_NUMBER: _ClassVar[int]
    errState: ValidateErrorState
    taskName: str
    def __init__(self, errState: _Optional[_Union[ValidateErrorState, str]] = ..., taskName: _Optional[str] = ...) -> None: ...

class ValidationError(_message.Message):
    __slots__ = ("id", "source", "srcTable", "srcData", "dstTable", "dstData", "errorType", "status", "time", "message")
    ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SRCTABLE_FIELD_NUMBER: _ClassVar[int]
    SRCDATA_FIELD_NUMBER: _ClassVar[int]
    DSTTABLE_FIELD_NUMBER: _ClassVar[int]
    DSTDATA_FIELD_NUMBER: _ClassVar[int]
    ERRORTYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    id: str
    source: str
    srcTable: str
    srcData: str
    dstTable: str
    dstData: str
    errorType: str
    status: ValidateErrorState
    time: str
    message: str
    def __init__(self, id: _Optional[str] = ..., source: _Optional[str] = ..., srcTable: _Optional[str] = ..., srcData: _Optional[str] = ..., dstTable: _Optional[str] = ..., dstData: _Optional[str] = ..., errorType: _Optional[str] = ..., status: _Optional[_Union[ValidateErrorState, str]] = ..., time: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class GetValidationErrorResponse(_message.Message):
    __slots__ = ("result", "msg", "error")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    error: _containers.RepeatedCompositeFieldContainer[ValidationError]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., error: _Optional[_Iterable[_Union[ValidationError, _Mapping]]] = ...) -> None: ...

class OperateValidationErrorRequest(_message.Message):
    __slots__ = ("op", "isAllError", "taskName", "errId")
    OP_FIELD_NUMBER: _ClassVar[int]
    ISALLERROR_FIELD_NUMBER: _ClassVar[int]
    TASKNAME_FIELD_NUMBER: _ClassVar[int]
    ERRID_FIELD_NUMBER: _ClassVar[int]
    op: ValidationErrOp
    isAllError: bool
    taskName: str
    errId: int
    def __init__(self, op: _Optional[_Union[ValidationErrOp, str]] = ..., isAllError: _Optional[bool] = ..., taskName: _Optional[str] = ..., errId: _Optional[int] = ...) -> None: ...

class OperateValidationErrorResponse(_message.Message):
    __slots__ = ("result", "msg")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ...) -> None: ...

class UpdateValidationWorkerRequest(_message.Message):
    __slots__ = ("taskName", "binlogPos", "binlogGTID")
    TASKNAME_FIELD_NUMBER: _ClassVar[int]
    BINLOGPOS_FIELD_NUMBER: _ClassVar[int]
    BINLOGGTID_FIELD_NUMBER: _ClassVar[int]
    taskName: str
    binlogPos: str
    binlogGTID: str
    def __init__(self, taskName: _Optional[str] = ..., binlogPos: _Optional[str] = ..., binlogGTID: _Optional[str] = ...) -> None: ...
