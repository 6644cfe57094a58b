"""Keys that several files have: how to reach a server, and the units' blocks. Pure data."""

from __future__ import annotations

from pkg.config.effects.effect import KeyEffect

_INTROSPECT = "pkg/mysql/connection.py"
_TLS = "pkg/tls/client.py"
_PEM = "pkg/tls/certificates.py"


def database(place: str, packet: KeyEffect) -> tuple[KeyEffect, ...]:
    """The rows of a server's block; ``packet`` is the one of ``max-allowed-packet``, which servers use differently."""
    return (
        KeyEffect(f"{place}.host", "required", "Name or address of the server.", _INTROSPECT),
        KeyEffect(f"{place}.port", "required", "Port of the server.", _INTROSPECT),
        KeyEffect(f"{place}.user", "root", "User of every connection.", _INTROSPECT),
        KeyEffect(f"{place}.password", "", "Password, plain or encrypted with `dmctl encrypt`.", _INTROSPECT),
        packet,
        KeyEffect(
            f"{place}.session",
            "{}",
            "Session variables of every connection. Those that change what is read or written are refused (20003). "
            "time_zone is warned of: rows are transferred in UTC.",
            _INTROSPECT,
        ),
        KeyEffect(f"{place}.security.ssl-ca", "", "CA that the server's certificate must be signed by.", _TLS),
        KeyEffect(f"{place}.security.ssl-cert", "", "Our certificate.", _TLS),
        KeyEffect(f"{place}.security.ssl-key", "", "The key of our certificate.", _TLS),
        KeyEffect(
            f"{place}.security.cert-allowed-cn", "[]", "Names, one of which the server's certificate must have.", _TLS
        ),
        *(
            KeyEffect(
                f"{place}.security.{part}-{form}",
                "",
                f"{part} as {words} in place of a path. dmctl sends it.",
                _TLS if part == "ssl-ca" else _PEM,
            )
            for form, words in (("bytes", "PEM text or bytes"), ("base64", "base64"))
            for part in ("ssl-ca", "ssl-cert", "ssl-key")
        ),
    )


MYDUMPER = (
    KeyEffect("mydumpers.*.mydumper-path", "./bin/mydumper", "The dumper is built in.", kind="warned"),
    KeyEffect(
        "mydumpers.*.threads",
        "4",
        "Connections that read the upstream in parallel. Above the worker's slots (`spark.slots`) the slots count, and "
        "check-task and start-task warn.",
        "dm_worker/dumper/dump_unit.py",
    ),
    KeyEffect(
        "mydumpers.*.chunk-filesize", "64", "Size of one file, in MiB or with a unit.", "dm_worker/dumper/dump_unit.py"
    ),
    KeyEffect(
        "mydumpers.*.statement-size", "0", "Bytes of one INSERT statement; 0 is 1 MiB.", "dm_worker/dumper/dump_task.py"
    ),
    KeyEffect(
        "mydumpers.*.rows",
        "0",
        "Above 0: tables are read in chunks of about so many rows.",
        "dm_worker/dumper/dump_unit.py",
    ),
    KeyEffect("mydumpers.*.where", "", "Condition on the rows of every table.", "dm_worker/dumper/dump_task.py"),
    KeyEffect(
        "mydumpers.*.skip-tz-utc",
        "true",
        "Values are always read and written in UTC, which keeps each TIMESTAMP the same moment in time.",
        kind="warned",
    ),
    KeyEffect(
        "mydumpers.*.extra-args",
        "",
        "Options of dumpling: -B -T -t -F -s -r -f -W --consistency --where --escape-backslash --no-locks --ca --cert "
        "--key. Others are refused when the file is read (32001).",
        "dm_worker/dumper/options.py",
    ),
)

_PHYSICAL = "It is for physical import, which is not supported."
LOADER = (
    KeyEffect(
        "loaders.*.pool-size",
        "16",
        "Files loaded in parallel. Above the worker's slots (`spark.slots`) the slots count, and check-task and "
        "start-task warn.",
        "dm_worker/loader/load_unit.py",
    ),
    KeyEffect(
        "loaders.*.dir",
        "./dumped_data",
        "Folder of the dump on the worker; `.TASK` is added except in modes load and load&sync. Other storage is "
        "refused (20059).",
        "dm_worker/dumper/metadata.py",
    ),
    KeyEffect(
        "loaders.*.import-mode",
        "logical",
        "logical, sql and loader load by INSERT. Others are refused (20053).",
        kind="refused",
    ),
    KeyEffect(
        "loaders.*.on-duplicate",
        "",
        "Older spelling of on-duplicate-logical, warned of.",
        "dm_worker/loader/load_unit.py",
    ),
    KeyEffect(
        "loaders.*.on-duplicate-logical",
        "",
        "replace, ignore or error: what happens with a row whose key exists. Empty: an error.",
        "dm_worker/loader/load_unit.py",
    ),
    *(
        KeyEffect(f"loaders.*.{name}", default, _PHYSICAL, kind="warned")
        for name, default in (
            ("sorting-dir-physical", ""),
            ("on-duplicate-physical", "none"),
            ("disk-quota-physical", ""),
            ("checksum-physical", "required"),
            ("analyze", "optional"),
            ("range-concurrency", ""),
            ("compress-kv-pairs", ""),
            ("pd-addr", ""),
        )
    ),
)

_BY_BACKLOG = "The size of batches and transactions follows the backlog."
SYNCER = (
    KeyEffect("syncers.*.meta-file", "", "The checkpoint is in the target's meta schema.", kind="warned"),
    KeyEffect(
        "syncers.*.worker-count",
        "16",
        "Parallel writers: transactions that the changes of a batch are divided into.",
        "dm_worker/syncer/unit/applying.py",
    ),
    KeyEffect("syncers.*.batch", "100", _BY_BACKLOG, kind="warned"),
    KeyEffect(
        "syncers.*.queue-size",
        "1024",
        "Memory bounds what waits for a writer (`spark.memory-budget` of the worker).",
        kind="warned",
    ),
    KeyEffect(
        "syncers.*.checkpoint-flush-interval",
        "30",
        "The checkpoint moves with each batch, in the transaction of its last step.",
        kind="warned",
    ),
    KeyEffect(
        "syncers.*.compact",
        "",
        "false writes every change of a row, in its order. Empty or true: only its last state.",
        "dm_worker/syncer/unit/reading.py",
    ),
    KeyEffect(
        "syncers.*.multiple-rows",
        "",
        "false writes one row per statement. Empty or true: many rows.",
        "dm_worker/syncer/unit/applying.py",
    ),
    *(
        KeyEffect(f"syncers.*.{name}", "", reason, kind="warned")
        for name, reason in (
            ("max-retry", "What may pass is tried again as long as the source's checker allows."),
            ("auto-fix-gtid", "GTIDs are never changed."),
            ("enable-gtid", "enable-gtid of the source counts."),
            ("disable-detect", "Conflicts are always detected."),
            ("enable-ansi-quotes", "The upstream's sql_mode counts, which is in the binlog."),
        )
    ),
    KeyEffect(
        "syncers.*.safe-mode",
        "false",
        "true: changes are written so that they can be repeated without harm. Refused with safe-mode-duration 0s "
        "(20061).",
        "dm_worker/syncer/unit/recovery.py",
    ),
    KeyEffect(
        "syncers.*.safe-mode-duration",
        "",
        "0s switches off the safe mode after a checkpoint of another program. Any other duration is warned of: safe "
        "mode ends at the place in the binlog up to which rows may be there twice.",
        "dm_worker/syncer/unit/recovery.py",
    ),
)

_NO_VALIDATOR = "Validation is not supported; modes other than none are refused (20055)."
VALIDATOR = (
    KeyEffect("validators.*.mode", "none", "fast and full are refused (20055): not supported yet.", kind="refused"),
    *(
        KeyEffect(f"validators.*.{name}", default, _NO_VALIDATOR, kind="warned")
        for name, default in (
            ("worker-count", "4"),
            ("validate-interval", "10s"),
            ("check-interval", "5s"),
            ("row-error-delay", "30m"),
            ("meta-flush-interval", "5m"),
            ("batch-query-size", "100"),
            ("max-pending-row-size", "500m"),
            ("max-pending-row-count", "2147483647"),
        )
    ),
)
