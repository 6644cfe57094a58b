"""Keys that occur in several files or blocks: a server's address, and the units' blocks. Pure data."""

from __future__ import annotations

from pkg.config.model import LoaderConfig, MydumperConfig, SyncerConfig, ValidatorConfig
from pkg.config.unit_values import (
    check_import_mode,
    chunk_filesize,
    extra_args,
    local_dir,
    pending_size,
    safe_mode_duration,
    validation_mode,
)
from pkg.errors import Code
from pkg.settings.keys import Block, Choices, FileKey

_INTROSPECT = "pkg/mysql/connection.py"
_TLS = "pkg/tls/client.py"
_PEM = "pkg/tls/certificates.py"


def database(name: str, packet: FileKey, field: str, comment: str = "") -> Block:
    """A server's block; ``packet`` is ``max-allowed-packet``, which servers use differently."""
    return Block(
        name,
        (
            FileKey("host", "Name or address of the server.", _INTROSPECT, default="required", sample='"127.0.0.1"'),
            FileKey("port", "Port of the server.", _INTROSPECT, default="required", sample="4000"),
            FileKey("user", "User of every connection.", _INTROSPECT, default="root", sample='"root"'),
            FileKey(
                "password",
                "Password, plain or encrypted with `dmctl encrypt`.",
                _INTROSPECT,
                sample='""',
                comment="Plain, or encrypted with `dmctl encrypt`.",
            ),
            packet,
            FileKey(
                "session",
                "Session variables of every connection. Those that change what is read or written are refused (20003). "
                "time_zone is warned of: rows are transferred in UTC.",
                _INTROSPECT,
                default="{}",
                free=True,
                sample="{}",
                comment='Session variables of every connection, such as tidb_txn_mode: "optimistic".',
            ),
            _SECURITY,
        ),
        field=field,
        updatable=True,
        comment=comment,
    )


_SECURITY = Block(
    "security",
    (
        FileKey("ssl-ca", "CA that the server's certificate must be signed by.", _TLS),
        FileKey("ssl-cert", "Our certificate.", _TLS),
        FileKey("ssl-key", "The key of our certificate.", _TLS),
        FileKey("cert-allowed-cn", "Names, one of which the server's certificate must have.", _TLS, default="[]"),
        *(
            FileKey(
                f"{part}-{form}",
                f"{part} as {words} in place of a path. dmctl sends it.",
                _TLS if part == "ssl-ca" else _PEM,
            )
            for form, words in (("bytes", "PEM text or bytes"), ("base64", "base64"))
            for part in ("ssl-ca", "ssl-cert", "ssl-key")
        ),
    ),
    comment="""\
TLS: paths of the CA's certificate, of our certificate and its key.
Without them: TLS if the server offers it, without verification of the server.
security:
  ssl-ca: "/path/to/ca.pem"
  ssl-cert: "/path/to/cert.pem"
  ssl-key: "/path/to/key.pem"
  # With ssl-ca the server's certificate must be signed by that CA and be for `host`. If names are listed here, it
  # must instead contain one of them as common name, host or address.
  cert-allowed-cn: []""",
)

_MYDUMPER = (
    FileKey("mydumper-path", "The dumper is built in.", kind="warned"),
    FileKey(
        "threads",
        "Connections that read the upstream in parallel. Above the worker's slots (`spark.slots`) the slots count, and "
        "check-task and start-task warn.",
        "dm_worker/dumper/dump_unit.py",
        zero_is_default=True,
        sample="4",
        comment="Connections that read in parallel.",
    ),
    FileKey(
        "chunk-filesize",
        "Size of one file, in MiB or with a unit.",
        "dm_worker/dumper/dump_unit.py",
        default="64",
        read=chunk_filesize,
        sample='"64"',
        comment='Size of one file in MiB, or with a unit ("64MiB").',
    ),
    FileKey(
        "statement-size",
        "Bytes of one INSERT statement; 0 is 1 MiB.",
        "dm_worker/dumper/dump_task.py",
        default="0",
        zero_is_default=True,
        sample="0",
        comment="Size of one INSERT statement in bytes; 0 is 1 MiB.",
    ),
    FileKey(
        "rows",
        "Above 0: tables are read in chunks of about so many rows.",
        "dm_worker/dumper/dump_unit.py",
        sample="0",
        comment="Rows of one chunk; above 0, tables are read in several chunks in parallel.",
    ),
    FileKey(
        "where",
        "Condition on the rows of every table.",
        "dm_worker/dumper/dump_task.py",
        sample='""',
        comment="Condition on the rows of every table.",
    ),
    FileKey(
        "skip-tz-utc",
        "Values are always read and written in UTC, which keeps each TIMESTAMP the same moment in time.",
        kind="warned",
        sample="true",
        comment="Values are always read in UTC: false causes a warning.",
    ),
    FileKey(
        "extra-args",
        "Options of dumpling: -B -T -t -F -s -r -f -W --consistency --where --escape-backslash --no-locks --ca --cert "
        "--key. Others are refused when the file is read (32001).",
        "dm_worker/dumper/options.py",
        read=extra_args,
        sample='""',
        comment='Options of dumpling, such as "--consistency lock"; unknown ones are refused.',
    ),
)


def _physical(name: str, default: str = "", choices: Choices | None = None) -> FileKey:
    reason = "It is for physical import, which is not supported."
    return FileKey(name, reason, kind="warned", default=default, choices=choices)


_DUPLICATES = Choices(("replace", "error", "ignore"), Code.ConfigInvalidDuplicateResolution)
_CHECKS = ("required", "optional", "off")
_LOADER = (
    FileKey(
        "pool-size",
        "Files loaded in parallel. Above the worker's slots (`spark.slots`) the slots count, and check-task and "
        "start-task warn.",
        "dm_worker/loader/load_unit.py",
        zero_is_default=True,
        sample="16",
        comment="Files loaded in parallel.",
    ),
    FileKey(
        "dir",
        "Folder of the dump on the worker; `.TASK` is added except in modes load and load&sync. Other storage is "
        "refused (20059).",
        "dm_worker/dumper/metadata.py",
        read=local_dir,
        sample='"./dumped_data"',
        comment="Folder of the dump; the task's name is added to it.",
    ),
    _physical("sorting-dir-physical"),
    FileKey(
        "import-mode",
        "logical, sql and loader load by INSERT. Others are refused (20053).",
        kind="refused",
        read=check_import_mode,
        sample='"logical"',
        comment="logical: by INSERT. Other modes are not supported yet.",
    ),
    FileKey(
        "on-duplicate",
        "Older spelling of on-duplicate-logical, warned of.",
        "dm_worker/loader/load_plan.py",
        choices=_DUPLICATES,
    ),
    FileKey(
        "on-duplicate-logical",
        "replace, ignore or error: what happens with a row whose key exists. Empty: an error.",
        "dm_worker/loader/load_plan.py",
        choices=_DUPLICATES,
        sample='"error"',
        comment="""\
What to do with a row whose key exists in the target: replace it, ignore the new row, or stop with an error.
Without this key: stop with an error.""",
    ),
    FileKey(
        "keys-after-rows",
        "true: a large table that a load creates in MariaDB or MySQL gets its secondary keys after its rows, in one "
        "statement. false: every table has all of its keys from the start. DM has no such key.",
        "dm_worker/loader/load_unit.py",
        sample="true",
        comment="""\
Create the secondary keys of large new tables in MariaDB and MySQL after their rows, which takes a fraction of the
time. The finished table is the same.""",
    ),
    FileKey(
        "rows-while-dumping",
        "true: rows of large tables that the target lacks are loaded while the dump still runs, into tables of their "
        "own (`_dm_early_…`), which get their names when the dump is complete. Only in MariaDB and MySQL, with the "
        "embedded engine and without shard-mode. It helps where the dump waits for the upstream or the network, with "
        "several files per table and thread, because complete files are loaded (`rows`, `chunk-filesize`). false: the "
        "load begins after the dump. DM has no such key.",
        "dm_worker/loader/early_load.py",
        default="false",
        sample="false",
        comment="""\
Load rows of large new tables in MariaDB and MySQL while the dump still runs, into tables that get their names when the
dump is complete. The finished table is the same.""",
    ),
    _physical(
        "on-duplicate-physical",
        "none",
        Choices(("none", "manual"), Code.ConfigInvalidPhysicalDuplicateResolution),
    ),
    _physical("disk-quota-physical"),
    _physical("checksum-physical", "required", Choices(_CHECKS, Code.ConfigInvalidPhysicalChecksum)),
    _physical("analyze", "optional", Choices(_CHECKS, Code.ConfigInvalidLoadAnalyze)),
    _physical("range-concurrency"),
    _physical("compress-kv-pairs"),
    _physical("pd-addr"),
)

_BY_BACKLOG = "The size of batches and transactions follows the backlog."
_SYNCER = (
    FileKey("meta-file", "The checkpoint is in the target's meta schema.", kind="warned"),
    FileKey(
        "worker-count",
        "Parallel writers: transactions that the changes of a batch are divided into.",
        "dm_worker/syncer/unit/applying.py",
        zero_is_default=True,
        sample="16",
        comment="Parallel writers: the changes of a batch are divided into this many transactions. Small batches use "
        "fewer.",
    ),
    FileKey(
        "batch",
        _BY_BACKLOG,
        kind="warned",
        zero_is_default=True,
        sample="100",
        comment="""\
In DM the number of statements of one transaction. It has no effect here: a transaction holds a writer's rows of one
batch, and the size of batches follows the backlog. Accepted so that DM's task files work.""",
    ),
    FileKey(
        "queue-size",
        "Memory bounds what waits for a writer (`spark.memory-budget` of the worker).",
        kind="warned",
        zero_is_default=True,
        sample="1024",
        comment="""\
Likewise: in DM the events that wait for a writer, and the seconds between two checkpoints. Here memory bounds what
waits, and the checkpoint moves with each batch. Other values than these cause a warning.""",
    ),
    FileKey(
        "checkpoint-flush-interval",
        "The checkpoint moves with each batch, in the transaction of its last step.",
        kind="warned",
        zero_is_default=True,
        sample="30",
    ),
    FileKey(
        "compact",
        "false writes every change of a row, in its order. Empty or true: only its last state.",
        "dm_worker/syncer/unit/reading.py",
        sample="true",
        comment="""\
Write only the last state of a row that changed several times (compact), and many rows in one statement
(multiple-rows). Both are on without these keys. compact false writes every change in its order; multiple-rows false
writes one row per statement, by INSERT, UPDATE and DELETE only: for targets with triggers, or if statements count.""",
    ),
    FileKey(
        "multiple-rows",
        "false writes one row per statement. Empty or true: many rows.",
        "dm_worker/syncer/unit/applying.py",
        sample="true",
    ),
    FileKey("max-retry", "What may pass is tried again as long as the source's checker allows.", kind="warned"),
    FileKey("auto-fix-gtid", "GTIDs are never changed.", kind="warned"),
    FileKey("enable-gtid", "enable-gtid of the source counts.", kind="warned"),
    FileKey("disable-detect", "Conflicts are always detected.", kind="warned"),
    FileKey(
        "safe-mode",
        "true: changes are written so that they can be repeated without harm. Refused with safe-mode-duration 0s "
        "(20061).",
        "dm_worker/syncer/unit/recovery.py",
        sample="false",
        comment="Write so that a change can be repeated without harm. Turned on automatically when it is needed.",
    ),
    FileKey(
        "safe-mode-duration",
        "0s switches off the safe mode after a checkpoint of another program. Any other duration is warned of: safe "
        "mode ends at the place in the binlog up to which rows may be there twice.",
        "dm_worker/syncer/unit/recovery.py",
        read=safe_mode_duration,
        sample='""',
        comment="""\
0s switches off the safe mode that a checkpoint of another program needs. Any other duration causes a warning: safe
mode lasts up to the place in the binlog where it is needed.""",
    ),
    FileKey("enable-ansi-quotes", "The upstream's sql_mode counts, which is in the binlog.", kind="warned"),
)

_VALIDATION = "dm_worker/validator/validator.py"
_VALIDATOR = (
    FileKey(
        "mode",
        "full compares every value of the rows that were replicated, fast only whether they are there; none nothing.",
        "dm_worker/source/desired_validation.py",
        read=validation_mode,
        sample="none",
        comment="Compare what was replicated with the target: full (every value), fast (whether the rows are there) or "
        "none.",
    ),
    FileKey(
        "worker-count",
        "Parallel parts of a batch of more than 64 MiB.",
        _VALIDATION,
        zero_is_default=True,
        sample="4",
        comment="Parallel parts of a batch of more than 64 MiB.",
    ),
    FileKey(
        "validate-interval",
        "Pause between two looks at the target; 100,000 waiting changes start one earlier.",
        _VALIDATION,
        zero_is_default=True,
        sample="10s",
        comment="Pause between two looks at the target, and between two checks whether wrong rows are right again.",
    ),
    FileKey(
        "check-interval",
        "Pause between two checks whether wrong rows are right again.",
        _VALIDATION,
        zero_is_default=True,
        sample="5s",
    ),
    FileKey(
        "row-error-delay",
        "A difference is an error once it is certain, and not before: no delay is needed.",
        kind="warned",
        default="30m",
        sample="30m",
        comment="No effect: a difference is an error once it is certain.",
    ),
    FileKey(
        "meta-flush-interval",
        "How often the position is stored; errors are stored at once.",
        _VALIDATION,
        zero_is_default=True,
        sample="5m",
        comment="How often the position is stored. Errors are stored at once.",
    ),
    FileKey(
        "batch-query-size",
        "Rows that one statement compares one by one. As a whole it compares ten times as many.",
        _VALIDATION,
        zero_is_default=True,
        sample="100",
        comment="Rows that one statement compares one by one. As a whole it compares ten times as many.",
    ),
    FileKey(
        "max-pending-row-size",
        "Bytes of changes that wait in memory (64 MiB at most); more wait in a file.",
        _VALIDATION,
        read=pending_size,
        sample='"500m"',
        comment="What waits in memory (64 MiB at most). More waits in a file; nothing stops.",
    ),
    FileKey(
        "max-pending-row-count",
        "Row changes that wait in memory; more wait in a file.",
        _VALIDATION,
        zero_is_default=True,
        sample="2147483647",
    ),
    FileKey(
        "sweep-rate",
        "Rows per second of the sweep over whole tables, mode full; 512 bytes that are read count as a row. 0: none.",
        _VALIDATION,
        sample="20000",
        comment="Rows per second of the sweep over whole tables in mode full, which finds what others write into the "
        "target. 0: no sweep.",
    ),
)

MYDUMPERS = Block("mydumpers", _MYDUMPER, "named", MydumperConfig, names=("global",), comment="\nReading the upstream.")
LOADERS = Block("loaders", _LOADER, "named", LoaderConfig, names=("global",), comment="\nWriting the copy.")
SYNCERS = Block("syncers", _SYNCER, "named", SyncerConfig, names=("global",), comment="\nReplicating the binlog.")
VALIDATORS = Block(
    "validators",
    _VALIDATOR,
    "named",
    ValidatorConfig,
    names=("global",),
    comment="\nComparing what was replicated.",
)
