from pkg.pb import dmworker_pb2 as _dmworker_pb2
from google.protobuf import empty_pb2 as _empty_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class UnlockDDLLockOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidLockOp: _ClassVar[UnlockDDLLockOp]
    SkipLock: _ClassVar[UnlockDDLLockOp]
    ExecLock: _ClassVar[UnlockDDLLockOp]

class SourceOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidSourceOp: _ClassVar[SourceOp]
    StartSource: _ClassVar[SourceOp]
    UpdateSource: _ClassVar[SourceOp]
    StopSource: _ClassVar[SourceOp]
    ShowSource: _ClassVar[SourceOp]
    EnableSource: _ClassVar[SourceOp]
    DisableSource: _ClassVar[SourceOp]

class LeaderOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidLeaderOp: _ClassVar[LeaderOp]
    EvictLeaderOp: _ClassVar[LeaderOp]
    CancelEvictLeaderOp: _ClassVar[LeaderOp]

class CfgType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidType: _ClassVar[CfgType]
    TaskType: _ClassVar[CfgType]
    MasterType: _ClassVar[CfgType]
    WorkerType: _ClassVar[CfgType]
    SourceType: _ClassVar[CfgType]
    TaskTemplateType: _ClassVar[CfgType]

class RelayOpV2(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidRelayOpV2: _ClassVar[RelayOpV2]
    StartRelayV2: _ClassVar[RelayOpV2]
    StopRelayV2: _ClassVar[RelayOpV2]

class TemplateOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidTemplateOp: _ClassVar[TemplateOp]
    CreateTemplate: _ClassVar[TemplateOp]
    UpdateTemplate: _ClassVar[TemplateOp]
    DeleteTemplate: _ClassVar[TemplateOp]
    ListTemplates: _ClassVar[TemplateOp]
    ImportTemplates: _ClassVar[TemplateOp]

class CutoverOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    InvalidCutoverOp: _ClassVar[CutoverOp]
    RunCutover: _ClassVar[CutoverOp]
    ShowCutover: _ClassVar[CutoverOp]
    EndCutover: _ClassVar[CutoverOp]
    VerifyCutover: _ClassVar[CutoverOp]
    ReverseCutover: _ClassVar[CutoverOp]
InvalidLockOp: UnlockDDLLockOp
SkipLock: UnlockDDLLockOp
ExecLock: UnlockDDLLockOp
InvalidSourceOp: SourceOp
StartSource: SourceOp
UpdateSource: SourceOp
StopSource: SourceOp
ShowSource: SourceOp
EnableSource: SourceOp
DisableSource: SourceOp
InvalidLeaderOp: LeaderOp
EvictLeaderOp: LeaderOp
CancelEvictLeaderOp: LeaderOp
InvalidType: CfgType
TaskType: CfgType
MasterType: CfgType
WorkerType: CfgType
SourceType: CfgType
TaskTemplateType: CfgType
InvalidRelayOpV2: RelayOpV2
StartRelayV2: RelayOpV2
StopRelayV2: RelayOpV2
InvalidTemplateOp: TemplateOp
CreateTemplate: TemplateOp
UpdateTemplate: TemplateOp
DeleteTemplate: TemplateOp
ListTemplates: TemplateOp
ImportTemplates: TemplateOp
InvalidCutoverOp: CutoverOp
RunCutover: CutoverOp
ShowCutover: CutoverOp
EndCutover: CutoverOp
VerifyCutover: CutoverOp
ReverseCutover: CutoverOp

class StartTaskRequest(_message.Message):
    __slots__ = ("task", "sources", "removeMeta", "startTime", "untilPosition", "untilGTID", "untilTime")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    REMOVEMETA_FIELD_NUMBER: _ClassVar[int]
    STARTTIME_FIELD_NUMBER: _ClassVar[int]
    UNTILPOSITION_FIELD_NUMBER: _ClassVar[int]
    UNTILGTID_FIELD_NUMBER: _ClassVar[int]
    UNTILTIME_FIELD_NUMBER: _ClassVar[int]
    task: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    removeMeta: bool
    startTime: str
    untilPosition: str
    untilGTID: str
    untilTime: str
    def __init__(self, task: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ..., removeMeta: _Optional[bool] = ..., startTime: _Optional[str] = ..., untilPosition: _Optional[str] = ..., untilGTID: _Optional[str] = ..., untilTime: _Optional[str] = ...) -> None: ...

class StartTaskResponse(_message.Message):
    __slots__ = ("result", "msg", "sources", "checkResult", "warnings")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    CHECKRESULT_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.CommonWorkerResponse]
    checkResult: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.CommonWorkerResponse, _Mapping]]] = ..., checkResult: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class OperateTaskRequest(_message.Message):
    __slots__ = ("op", "name", "sources", "safeMode", "keep", "removeMeta", "startTime", "safeModeDuration", "seconds", "force")
    OP_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    SAFEMODE_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    REMOVEMETA_FIELD_NUMBER: _ClassVar[int]
    STARTTIME_FIELD_NUMBER: _ClassVar[int]
    SAFEMODEDURATION_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    op: _dmworker_pb2.TaskOp
    name: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    safeMode: bool
    keep: bool
    removeMeta: bool
    startTime: str
    safeModeDuration: str
    seconds: float
    force: bool
    def __init__(self, op: _Optional[_Union[_dmworker_pb2.TaskOp, str]] = ..., name: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ..., safeMode: _Optional[bool] = ..., keep: _Optional[bool] = ..., removeMeta: _Optional[bool] = ..., startTime: _Optional[str] = ..., safeModeDuration: _Optional[str] = ..., seconds: _Optional[float] = ..., force: _Optional[bool] = ...) -> None: ...

class OperateTaskResponse(_message.Message):
    __slots__ = ("op", "result", "msg", "sources")
    OP_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    op: _dmworker_pb2.TaskOp
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.CommonWorkerResponse]
    def __init__(self, op: _Optional[_Union[_dmworker_pb2.TaskOp, str]] = ..., result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.CommonWorkerResponse, _Mapping]]] = ...) -> None: ...

class UpdateTaskRequest(_message.Message):
    __slots__ = ("task", "sources")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    task: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ...) -> None: ...

class UpdateTaskResponse(_message.Message):
    __slots__ = ("result", "msg", "sources", "checkResult")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    CHECKRESULT_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.CommonWorkerResponse]
    checkResult: str
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.CommonWorkerResponse, _Mapping]]] = ..., checkResult: _Optional[str] = ...) -> None: ...

class StoreTaskRequest(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: str
    def __init__(self, task: _Optional[str] = ...) -> None: ...

class StoreTaskResponse(_message.Message):
    __slots__ = ("result", "msg", "checkResult", "warnings")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    CHECKRESULT_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    checkResult: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., checkResult: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class OperateTaskTemplateRequest(_message.Message):
    __slots__ = ("op", "task", "name", "overwrite")
    OP_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OVERWRITE_FIELD_NUMBER: _ClassVar[int]
    op: TemplateOp
    task: str
    name: str
    overwrite: bool
    def __init__(self, op: _Optional[_Union[TemplateOp, str]] = ..., task: _Optional[str] = ..., name: _Optional[str] = ..., overwrite: _Optional[bool] = ...) -> None: ...

class OperateTaskTemplateResponse(_message.Message):
    __slots__ = ("result", "msg", "templates", "failed")
    class TemplatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class FailedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    templates: _containers.ScalarMap[str, str]
    failed: _containers.ScalarMap[str, str]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., templates: _Optional[_Mapping[str, str]] = ..., failed: _Optional[_Mapping[str, str]] = ...) -> None: ...

class OperateClusterInfoRequest(_message.Message):
    __slots__ = ("topology",)
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    topology: str
    def __init__(self, topology: _Optional[str] = ...) -> None: ...

class OperateClusterInfoResponse(_message.Message):
    __slots__ = ("result", "msg", "clusterID", "topology")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    CLUSTERID_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    clusterID: int
    topology: str
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., clusterID: _Optional[int] = ..., topology: _Optional[str] = ...) -> None: ...

class ListSourceNamesRequest(_message.Message):
    __slots__ = ("source", "schema")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    source: str
    schema: str
    def __init__(self, source: _Optional[str] = ..., schema: _Optional[str] = ...) -> None: ...

class ListSourceNamesResponse(_message.Message):
    __slots__ = ("result", "msg", "names")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class QueryStatusListRequest(_message.Message):
    __slots__ = ("name", "sources", "profile")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    name: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    profile: bool
    def __init__(self, name: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ..., profile: _Optional[bool] = ...) -> None: ...

class QueryStatusListResponse(_message.Message):
    __slots__ = ("result", "msg", "sources")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.QueryStatusResponse]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.QueryStatusResponse, _Mapping]]] = ...) -> None: ...

class ShowDDLLocksRequest(_message.Message):
    __slots__ = ("task", "sources")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    task: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ...) -> None: ...

class DDLLock(_message.Message):
    __slots__ = ("ID", "task", "mode", "owner", "DDLs", "synced", "unsynced", "phase", "since", "waitsFor", "problem", "heldRows", "unlocks")
    ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    DDLS_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    UNSYNCED_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    WAITSFOR_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    HELDROWS_FIELD_NUMBER: _ClassVar[int]
    UNLOCKS_FIELD_NUMBER: _ClassVar[int]
    ID: str
    task: str
    mode: str
    owner: str
    DDLs: _containers.RepeatedScalarFieldContainer[str]
    synced: _containers.RepeatedScalarFieldContainer[str]
    unsynced: _containers.RepeatedScalarFieldContainer[str]
    phase: str
    since: str
    waitsFor: _containers.RepeatedScalarFieldContainer[str]
    problem: str
    heldRows: _containers.RepeatedCompositeFieldContainer[HeldRows]
    unlocks: _containers.RepeatedCompositeFieldContainer[UnlockChoice]
    def __init__(self, ID: _Optional[str] = ..., task: _Optional[str] = ..., mode: _Optional[str] = ..., owner: _Optional[str] = ..., DDLs: _Optional[_Iterable[str]] = ..., synced: _Optional[_Iterable[str]] = ..., unsynced: _Optional[_Iterable[str]] = ..., phase: _Optional[str] = ..., since: _Optional[str] = ..., waitsFor: _Optional[_Iterable[str]] = ..., problem: _Optional[str] = ..., heldRows: _Optional[_Iterable[_Union[HeldRows, _Mapping]]] = ..., unlocks: _Optional[_Iterable[_Union[UnlockChoice, _Mapping]]] = ...) -> None: ...

class UnlockChoice(_message.Message):
    __slots__ = ("owner", "op")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    owner: str
    op: UnlockDDLLockOp
    def __init__(self, owner: _Optional[str] = ..., op: _Optional[_Union[UnlockDDLLockOp, str]] = ...) -> None: ...

class HeldRows(_message.Message):
    __slots__ = ("source", "rows")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    source: str
    rows: int
    def __init__(self, source: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class ShowDDLLocksResponse(_message.Message):
    __slots__ = ("result", "msg", "locks")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    locks: _containers.RepeatedCompositeFieldContainer[DDLLock]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., locks: _Optional[_Iterable[_Union[DDLLock, _Mapping]]] = ...) -> None: ...

class UnlockDDLLockRequest(_message.Message):
    __slots__ = ("ID", "replaceOwner", "forceRemove", "op", "sources", "database", "table")
    ID_FIELD_NUMBER: _ClassVar[int]
    REPLACEOWNER_FIELD_NUMBER: _ClassVar[int]
    FORCEREMOVE_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    ID: str
    replaceOwner: str
    forceRemove: bool
    op: UnlockDDLLockOp
    sources: _containers.RepeatedScalarFieldContainer[str]
    database: str
    table: str
    def __init__(self, ID: _Optional[str] = ..., replaceOwner: _Optional[str] = ..., forceRemove: _Optional[bool] = ..., op: _Optional[_Union[UnlockDDLLockOp, str]] = ..., sources: _Optional[_Iterable[str]] = ..., database: _Optional[str] = ..., table: _Optional[str] = ...) -> None: ...

class UnlockDDLLockResponse(_message.Message):
    __slots__ = ("result", "msg")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ...) -> None: ...

class OperateWorkerRelayRequest(_message.Message):
    __slots__ = ("op", "sources")
    OP_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    op: _dmworker_pb2.RelayOp
    sources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, op: _Optional[_Union[_dmworker_pb2.RelayOp, str]] = ..., sources: _Optional[_Iterable[str]] = ...) -> None: ...

class OperateWorkerRelayResponse(_message.Message):
    __slots__ = ("op", "result", "msg", "sources")
    OP_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    op: _dmworker_pb2.RelayOp
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.CommonWorkerResponse]
    def __init__(self, op: _Optional[_Union[_dmworker_pb2.RelayOp, str]] = ..., result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.CommonWorkerResponse, _Mapping]]] = ...) -> None: ...

class PurgeWorkerRelayRequest(_message.Message):
    __slots__ = ("sources", "inactive", "time", "filename", "subDir")
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    INACTIVE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    SUBDIR_FIELD_NUMBER: _ClassVar[int]
    sources: _containers.RepeatedScalarFieldContainer[str]
    inactive: bool
    time: int
    filename: str
    subDir: str
    def __init__(self, sources: _Optional[_Iterable[str]] = ..., inactive: _Optional[bool] = ..., time: _Optional[int] = ..., filename: _Optional[str] = ..., subDir: _Optional[str] = ...) -> None: ...

class PurgeWorkerRelayResponse(_message.Message):
    __slots__ = ("result", "msg", "sources")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.CommonWorkerResponse]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.CommonWorkerResponse, _Mapping]]] = ...) -> None: ...

class CheckTaskRequest(_message.Message):
    __slots__ = ("task", "errCnt", "warnCnt", "startTime")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ERRCNT_FIELD_NUMBER: _ClassVar[int]
    WARNCNT_FIELD_NUMBER: _ClassVar[int]
    STARTTIME_FIELD_NUMBER: _ClassVar[int]
    task: str
    errCnt: int
    warnCnt: int
    startTime: str
    def __init__(self, task: _Optional[str] = ..., errCnt: _Optional[int] = ..., warnCnt: _Optional[int] = ..., startTime: _Optional[str] = ...) -> None: ...

class CheckTaskResponse(_message.Message):
    __slots__ = ("result", "msg", "rules", "warnings")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    rules: RulesSummary
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., rules: _Optional[_Union[RulesSummary, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class RulesSummary(_message.Message):
    __slots__ = ("tables", "targets", "leftOut", "unused")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    LEFTOUT_FIELD_NUMBER: _ClassVar[int]
    UNUSED_FIELD_NUMBER: _ClassVar[int]
    tables: int
    targets: int
    leftOut: int
    unused: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tables: _Optional[int] = ..., targets: _Optional[int] = ..., leftOut: _Optional[int] = ..., unused: _Optional[_Iterable[str]] = ...) -> None: ...

class HandBackRequest(_message.Message):
    __slots__ = ("task", "execute")
    TASK_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_FIELD_NUMBER: _ClassVar[int]
    task: str
    execute: bool
    def __init__(self, task: _Optional[str] = ..., execute: _Optional[bool] = ...) -> None: ...

class HandBackResponse(_message.Message):
    __slots__ = ("result", "msg", "sources")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.CommonWorkerResponse]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.CommonWorkerResponse, _Mapping]]] = ...) -> None: ...

class OperateDiffRequest(_message.Message):
    __slots__ = ("op", "task", "sources", "options", "comparison", "config")
    OP_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    COMPARISON_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    op: _dmworker_pb2.DiffOp
    task: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    options: _dmworker_pb2.DiffOptions
    comparison: str
    config: str
    def __init__(self, op: _Optional[_Union[_dmworker_pb2.DiffOp, str]] = ..., task: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ..., options: _Optional[_Union[_dmworker_pb2.DiffOptions, _Mapping]] = ..., comparison: _Optional[str] = ..., config: _Optional[str] = ...) -> None: ...

class OperateDiffResponse(_message.Message):
    __slots__ = ("result", "msg", "verdict", "sources")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    verdict: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.DiffSourceStatus]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., verdict: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.DiffSourceStatus, _Mapping]]] = ...) -> None: ...

class ShowRulesRequest(_message.Message):
    __slots__ = ("task", "sources")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    task: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ...) -> None: ...

class ShowRulesResponse(_message.Message):
    __slots__ = ("result", "msg", "summary", "tables")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    summary: RulesSummary
    tables: _containers.RepeatedCompositeFieldContainer[TableRules]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., summary: _Optional[_Union[RulesSummary, _Mapping]] = ..., tables: _Optional[_Iterable[_Union[TableRules, _Mapping]]] = ...) -> None: ...

class TableRules(_message.Message):
    __slots__ = ("source", "schema", "table", "targetSchema", "targetTable", "leftOut", "problem", "rules")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TARGETSCHEMA_FIELD_NUMBER: _ClassVar[int]
    TARGETTABLE_FIELD_NUMBER: _ClassVar[int]
    LEFTOUT_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    source: str
    schema: str
    table: str
    targetSchema: str
    targetTable: str
    leftOut: str
    problem: str
    rules: _containers.RepeatedCompositeFieldContainer[AppliedRule]
    def __init__(self, source: _Optional[str] = ..., schema: _Optional[str] = ..., table: _Optional[str] = ..., targetSchema: _Optional[str] = ..., targetTable: _Optional[str] = ..., leftOut: _Optional[str] = ..., problem: _Optional[str] = ..., rules: _Optional[_Iterable[_Union[AppliedRule, _Mapping]]] = ...) -> None: ...

class AppliedRule(_message.Message):
    __slots__ = ("block", "name", "place", "pattern", "effect")
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    block: str
    name: str
    place: str
    pattern: str
    effect: str
    def __init__(self, block: _Optional[str] = ..., name: _Optional[str] = ..., place: _Optional[str] = ..., pattern: _Optional[str] = ..., effect: _Optional[str] = ...) -> None: ...

class OperateSourceRequest(_message.Message):
    __slots__ = ("op", "config", "sourceID", "workerName")
    OP_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    SOURCEID_FIELD_NUMBER: _ClassVar[int]
    WORKERNAME_FIELD_NUMBER: _ClassVar[int]
    op: SourceOp
    config: _containers.RepeatedScalarFieldContainer[str]
    sourceID: _containers.RepeatedScalarFieldContainer[str]
    workerName: str
    def __init__(self, op: _Optional[_Union[SourceOp, str]] = ..., config: _Optional[_Iterable[str]] = ..., sourceID: _Optional[_Iterable[str]] = ..., workerName: _Optional[str] = ...) -> None: ...

class OperateSourceResponse(_message.Message):
    __slots__ = ("result", "msg", "sources", "warnings")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.CommonWorkerResponse]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.CommonWorkerResponse, _Mapping]]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class RegisterWorkerRequest(_message.Message):
    __slots__ = ("name", "address", "secretKeyProof")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SECRETKEYPROOF_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    secretKeyProof: bytes
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., secretKeyProof: _Optional[bytes] = ...) -> None: ...

class RegisterWorkerResponse(_message.Message):
    __slots__ = ("result", "msg", "secretKey")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SECRETKEY_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    secretKey: bytes
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., secretKey: _Optional[bytes] = ...) -> None: ...

class OfflineMemberRequest(_message.Message):
    __slots__ = ("type", "name")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    type: str
    name: str
    def __init__(self, type: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class OfflineMemberResponse(_message.Message):
    __slots__ = ("result", "msg")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ...) -> None: ...

class OperateLeaderRequest(_message.Message):
    __slots__ = ("op",)
    OP_FIELD_NUMBER: _ClassVar[int]
    op: LeaderOp
    def __init__(self, op: _Optional[_Union[LeaderOp, str]] = ...) -> None: ...

class OperateLeaderResponse(_message.Message):
    __slots__ = ("result", "msg")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ...) -> None: ...

class MasterInfo(_message.Message):
    __slots__ = ("name", "memberID", "alive", "peerURLs", "clientURLs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBERID_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    PEERURLS_FIELD_NUMBER: _ClassVar[int]
    CLIENTURLS_FIELD_NUMBER: _ClassVar[int]
    name: str
    memberID: int
    alive: bool
    peerURLs: _containers.RepeatedScalarFieldContainer[str]
    clientURLs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., memberID: _Optional[int] = ..., alive: _Optional[bool] = ..., peerURLs: _Optional[_Iterable[str]] = ..., clientURLs: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkerInfo(_message.Message):
    __slots__ = ("name", "addr", "stage", "source")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDR_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    addr: str
    stage: str
    source: str
    def __init__(self, name: _Optional[str] = ..., addr: _Optional[str] = ..., stage: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class ListLeaderMember(_message.Message):
    __slots__ = ("msg", "name", "addr")
    MSG_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDR_FIELD_NUMBER: _ClassVar[int]
    msg: str
    name: str
    addr: str
    def __init__(self, msg: _Optional[str] = ..., name: _Optional[str] = ..., addr: _Optional[str] = ...) -> None: ...

class ListMasterMember(_message.Message):
    __slots__ = ("msg", "masters")
    MSG_FIELD_NUMBER: _ClassVar[int]
    MASTERS_FIELD_NUMBER: _ClassVar[int]
    msg: str
    masters: _containers.RepeatedCompositeFieldContainer[MasterInfo]
    def __init__(self, msg: _Optional[str] = ..., masters: _Optional[_Iterable[_Union[MasterInfo, _Mapping]]] = ...) -> None: ...

class ListWorkerMember(_message.Message):
    __slots__ = ("msg", "workers")
    MSG_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    msg: str
    workers: _containers.RepeatedCompositeFieldContainer[WorkerInfo]
    def __init__(self, msg: _Optional[str] = ..., workers: _Optional[_Iterable[_Union[WorkerInfo, _Mapping]]] = ...) -> None: ...

class Members(_message.Message):
    __slots__ = ("leader", "master", "worker")
    LEADER_FIELD_NUMBER: _ClassVar[int]
    MASTER_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    leader: ListLeaderMember
    master: ListMasterMember
    worker: ListWorkerMember
    def __init__(self, leader: _Optional[_Union[ListLeaderMember, _Mapping]] = ..., master: _Optional[_Union[ListMasterMember, _Mapping]] = ..., worker: _Optional[_Union[ListWorkerMember, _Mapping]] = ...) -> None: ...

class ListMemberRequest(_message.Message):
    __slots__ = ("leader", "master", "worker", "names")
    LEADER_FIELD_NUMBER: _ClassVar[int]
    MASTER_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    leader: bool
    master: bool
    worker: bool
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, leader: _Optional[bool] = ..., master: _Optional[bool] = ..., worker: _Optional[bool] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class ListMemberResponse(_message.Message):
    __slots__ = ("result", "msg", "members")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    members: _containers.RepeatedCompositeFieldContainer[Members]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., members: _Optional[_Iterable[_Union[Members, _Mapping]]] = ...) -> None: ...

class OperateSchemaRequest(_message.Message):
    __slots__ = ("op", "task", "sources", "database", "table", "schema", "flush", "sync", "fromSource", "fromTarget")
    OP_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    FLUSH_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    FROMSOURCE_FIELD_NUMBER: _ClassVar[int]
    FROMTARGET_FIELD_NUMBER: _ClassVar[int]
    op: _dmworker_pb2.SchemaOp
    task: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    database: str
    table: str
    schema: str
    flush: bool
    sync: bool
    fromSource: bool
    fromTarget: bool
    def __init__(self, op: _Optional[_Union[_dmworker_pb2.SchemaOp, str]] = ..., task: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ..., database: _Optional[str] = ..., table: _Optional[str] = ..., schema: _Optional[str] = ..., flush: _Optional[bool] = ..., sync: _Optional[bool] = ..., fromSource: _Optional[bool] = ..., fromTarget: _Optional[bool] = ...) -> None: ...

class OperateSchemaResponse(_message.Message):
    __slots__ = ("result", "msg", "sources")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.CommonWorkerResponse]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.CommonWorkerResponse, _Mapping]]] = ...) -> None: ...

class GetSubTaskCfgRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetSubTaskCfgResponse(_message.Message):
    __slots__ = ("result", "msg", "cfgs")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    CFGS_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    cfgs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., cfgs: _Optional[_Iterable[str]] = ...) -> None: ...

class GetCfgRequest(_message.Message):
    __slots__ = ("type", "name")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    type: CfgType
    name: str
    def __init__(self, type: _Optional[_Union[CfgType, str]] = ..., name: _Optional[str] = ...) -> None: ...

class GetCfgResponse(_message.Message):
    __slots__ = ("result", "msg", "cfg", "warnings")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    CFG_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    cfg: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., cfg: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class GetMasterCfgRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetMasterCfgResponse(_message.Message):
    __slots__ = ("cfg", "warnings")
    CFG_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    cfg: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cfg: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class HandleErrorRequest(_message.Message):
    __slots__ = ("op", "task", "sources", "binlogPos", "sqls")
    OP_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    BINLOGPOS_FIELD_NUMBER: _ClassVar[int]
    SQLS_FIELD_NUMBER: _ClassVar[int]
    op: _dmworker_pb2.ErrorOp
    task: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    binlogPos: str
    sqls: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, op: _Optional[_Union[_dmworker_pb2.ErrorOp, str]] = ..., task: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ..., binlogPos: _Optional[str] = ..., sqls: _Optional[_Iterable[str]] = ...) -> None: ...

class HandleErrorResponse(_message.Message):
    __slots__ = ("result", "msg", "sources")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.CommonWorkerResponse]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.CommonWorkerResponse, _Mapping]]] = ...) -> None: ...

class TransferSourceRequest(_message.Message):
    __slots__ = ("source", "worker")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    source: str
    worker: str
    def __init__(self, source: _Optional[str] = ..., worker: _Optional[str] = ...) -> None: ...

class TransferSourceResponse(_message.Message):
    __slots__ = ("result", "msg")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ...) -> None: ...

class OperateRelayRequest(_message.Message):
    __slots__ = ("op", "source", "worker")
    OP_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    op: RelayOpV2
    source: str
    worker: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, op: _Optional[_Union[RelayOpV2, str]] = ..., source: _Optional[str] = ..., worker: _Optional[_Iterable[str]] = ...) -> None: ...

class OperateRelayResponse(_message.Message):
    __slots__ = ("result", "msg", "sources")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.CommonWorkerResponse]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.CommonWorkerResponse, _Mapping]]] = ...) -> None: ...

class StartValidationRequest(_message.Message):
    __slots__ = ("mode_value", "start_time_value", "sources", "taskName")
    MODE_VALUE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_VALUE_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    TASKNAME_FIELD_NUMBER: _ClassVar[int]
    mode_value: str
    start_time_value: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    taskName: str
    def __init__(self, mode_value: _Optional[str] = ..., start_time_value: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ..., taskName: _Optional[str] = ...) -> None: ...

class StartValidationResponse(_message.Message):
    __slots__ = ("result", "msg", "sources")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.CommonWorkerResponse]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.CommonWorkerResponse, _Mapping]]] = ...) -> None: ...

class StopValidationRequest(_message.Message):
    __slots__ = ("sources", "taskName")
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    TASKNAME_FIELD_NUMBER: _ClassVar[int]
    sources: _containers.RepeatedScalarFieldContainer[str]
    taskName: str
    def __init__(self, sources: _Optional[_Iterable[str]] = ..., taskName: _Optional[str] = ...) -> None: ...

class StopValidationResponse(_message.Message):
    __slots__ = ("result", "msg", "sources")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.CommonWorkerResponse]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.CommonWorkerResponse, _Mapping]]] = ...) -> None: ...

class UpdateValidationRequest(_message.Message):
    __slots__ = ("taskName", "sources", "binlogPos", "binlogGTID")
    TASKNAME_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    BINLOGPOS_FIELD_NUMBER: _ClassVar[int]
    BINLOGGTID_FIELD_NUMBER: _ClassVar[int]
    taskName: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    binlogPos: str
    binlogGTID: str
    def __init__(self, taskName: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ..., binlogPos: _Optional[str] = ..., binlogGTID: _Optional[str] = ...) -> None: ...

class UpdateValidationResponse(_message.Message):
    __slots__ = ("result", "msg", "sources")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sources: _containers.RepeatedCompositeFieldContainer[_dmworker_pb2.CommonWorkerResponse]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_dmworker_pb2.CommonWorkerResponse, _Mapping]]] = ...) -> None: ...

class EncryptRequest(_message.Message):
    __slots__ = ("plaintext",)
    PLAINTEXT_FIELD_NUMBER: _ClassVar[int]
    plaintext: str
    def __init__(self, plaintext: _Optional[str] = ...) -> None: ...

class EncryptResponse(_message.Message):
    __slots__ = ("result", "msg", "ciphertext")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    CIPHERTEXT_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    ciphertext: str
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., ciphertext: _Optional[str] = ...) -> None: ...

class ListTaskConfigsResponse(_message.Message):
    __slots__ = ("result", "msg", "taskConfigs", "stages")
    class TaskConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    TASKCONFIGS_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    taskConfigs: _containers.ScalarMap[str, str]
    stages: _containers.RepeatedCompositeFieldContainer[DesiredStage]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., taskConfigs: _Optional[_Mapping[str, str]] = ..., stages: _Optional[_Iterable[_Union[DesiredStage, _Mapping]]] = ...) -> None: ...

class DesiredStage(_message.Message):
    __slots__ = ("task", "source", "stage")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    task: str
    source: str
    stage: str
    def __init__(self, task: _Optional[str] = ..., source: _Optional[str] = ..., stage: _Optional[str] = ...) -> None: ...

class ListSourceConfigsResponse(_message.Message):
    __slots__ = ("result", "msg", "sourceConfigs")
    class SourceConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    SOURCECONFIGS_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    sourceConfigs: _containers.ScalarMap[str, str]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., sourceConfigs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CheckCutoverRequest(_message.Message):
    __slots__ = ("task", "seconds", "accept")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_FIELD_NUMBER: _ClassVar[int]
    task: str
    seconds: float
    accept: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task: _Optional[str] = ..., seconds: _Optional[float] = ..., accept: _Optional[_Iterable[str]] = ...) -> None: ...

class CheckCutoverResponse(_message.Message):
    __slots__ = ("result", "msg", "checks")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    checks: _containers.RepeatedCompositeFieldContainer[CutoverCheck]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., checks: _Optional[_Iterable[_Union[CutoverCheck, _Mapping]]] = ...) -> None: ...

class OperateCutoverRequest(_message.Message):
    __slots__ = ("op", "task", "seconds", "accept", "certificate")
    OP_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    op: CutoverOp
    task: str
    seconds: float
    accept: _containers.RepeatedScalarFieldContainer[str]
    certificate: str
    def __init__(self, op: _Optional[_Union[CutoverOp, str]] = ..., task: _Optional[str] = ..., seconds: _Optional[float] = ..., accept: _Optional[_Iterable[str]] = ..., certificate: _Optional[str] = ...) -> None: ...

class OperateCutoverResponse(_message.Message):
    __slots__ = ("result", "msg", "stage", "done", "checks", "certificate", "sources", "tables")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    result: bool
    msg: str
    stage: str
    done: bool
    checks: _containers.RepeatedCompositeFieldContainer[CutoverCheck]
    certificate: str
    sources: _containers.RepeatedCompositeFieldContainer[CutoverSource]
    tables: _containers.RepeatedCompositeFieldContainer[VerifiedTable]
    def __init__(self, result: _Optional[bool] = ..., msg: _Optional[str] = ..., stage: _Optional[str] = ..., done: _Optional[bool] = ..., checks: _Optional[_Iterable[_Union[CutoverCheck, _Mapping]]] = ..., certificate: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[CutoverSource, _Mapping]]] = ..., tables: _Optional[_Iterable[_Union[VerifiedTable, _Mapping]]] = ...) -> None: ...

class CutoverSource(_message.Message):
    __slots__ = ("source", "worker", "msg", "watch")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    MSG_FIELD_NUMBER: _ClassVar[int]
    WATCH_FIELD_NUMBER: _ClassVar[int]
    source: str
    worker: str
    msg: str
    watch: _dmworker_pb2.CutoverWatchStatus
    def __init__(self, source: _Optional[str] = ..., worker: _Optional[str] = ..., msg: _Optional[str] = ..., watch: _Optional[_Union[_dmworker_pb2.CutoverWatchStatus, _Mapping]] = ...) -> None: ...

class VerifiedTable(_message.Message):
    __slots__ = ("target", "state", "since", "rows", "certifiedRows")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    CERTIFIEDROWS_FIELD_NUMBER: _ClassVar[int]
    target: str
    state: str
    since: str
    rows: int
    certifiedRows: int
    def __init__(self, target: _Optional[str] = ..., state: _Optional[str] = ..., since: _Optional[str] = ..., rows: _Optional[int] = ..., certifiedRows: _Optional[int] = ...) -> None: ...

class CutoverCheck(_message.Message):
    __slots__ = ("name", "verdict", "evidence", "remedy", "accepted")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    name: str
    verdict: str
    evidence: _containers.RepeatedScalarFieldContainer[str]
    remedy: str
    accepted: bool
    def __init__(self, name: _Optional[str] = ..., verdict: _Optional[str] = ..., evidence: _Optional[_Iterable[str]] = ..., remedy: _Optional[str] = ..., accepted: _Optional[bool] = ...) -> None: ...
