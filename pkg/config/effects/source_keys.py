"""What each key of a source file does. Pure data."""

from __future__ import annotations

from pkg.config.effects.effect import KeyEffect
from pkg.config.effects.shared_keys import database

_CHECK = "dm_master/precheck/source_check.py"
_RESUME = "dm_worker/subtask/auto_resume.py"
_FILTER = "pkg/rules/binlog_filter/filter.py"

SOURCE_EFFECTS: tuple[KeyEffect, ...] = (
    KeyEffect(
        "source-id",
        "required",
        "Name of the upstream in task files, at most 32 characters.",
        "dm_master/task_setup/task_split.py",
    ),
    KeyEffect("enable", "true", "false is refused (20003): a disabled source is not supported.", kind="refused"),
    KeyEffect(
        "enable-gtid",
        "false",
        "Replicates by GTID instead of file and position.",
        "dm_worker/syncer/unit/stream_opener.py",
    ),
    KeyEffect("auto-fix-gtid", "false", "GTIDs are never changed.", kind="warned"),
    KeyEffect(
        "relay-dir",
        "",
        "Folder of the relay log; `relay-dir` of the worker overrides it. Deprecated, warned of.",
        "dm_worker/source/source_worker.py",
    ),
    KeyEffect("meta-dir", "", "The state is in etcd and in the target.", kind="warned"),
    KeyEffect("flavor", "", "mysql or mariadb; must be the server's. Empty asks the server.", _CHECK),
    KeyEffect(
        "charset",
        "",
        "Every connection uses utf8mb4; the charsets of the data are in the binlog.",
        kind="warned",
    ),
    KeyEffect(
        "enable-relay",
        "false",
        "Keeps the binlog in local files, which tasks then read.",
        "dm_master/scheduling/relay_stage.py",
    ),
    KeyEffect(
        "relay-binlog-name",
        "",
        "First file of the relay log if no task has a checkpoint; its form is checked (40007).",
        "dm_worker/relay/relay_client.py",
    ),
    KeyEffect(
        "relay-binlog-gtid",
        "",
        "The same as a GTID set, with enable-gtid. Its form is checked (11093, 11095); without enable-gtid it"
        " is warned of.",
        "dm_worker/relay/relay_client.py",
    ),
    *database(
        "from",
        KeyEffect("from.max-allowed-packet", "67108864", "The upstream's own limit counts.", kind="warned"),
    ),
    KeyEffect(
        "purge.interval",
        "3600",
        "Seconds between two checks of the relay files; 0 never checks.",
        "dm_worker/relay/relay.py",
    ),
    KeyEffect(
        "purge.expires",
        "0",
        "Hours after which a relay file is removed that no task needs; 0 never.",
        "dm_worker/relay/relay.py",
    ),
    KeyEffect("purge.remain-space", "15", "GB to keep free on the relay log's disk.", "dm_worker/relay/relay.py"),
    KeyEffect(
        "checker.check-enable",
        "true",
        "Resumes tasks that paused by an error that may pass. A relay tries again by itself.",
        _RESUME,
    ),
    KeyEffect(
        "checker.backoff-rollback",
        "5m",
        "After this time without an error, the wait becomes shorter again.",
        _RESUME,
    ),
    KeyEffect("checker.backoff-max", "5m", "The longest wait between two tries; of a relay, up to 30s.", _RESUME),
    KeyEffect(
        "checker.check-interval",
        "5s",
        "How often paused tasks are checked.",
        "dm_worker/source/source_worker.py",
    ),
    KeyEffect("checker.backoff-min", "1s", "The shortest wait between two tries.", _RESUME),
    KeyEffect("checker.backoff-jitter", "true", "Waits vary at random.", _RESUME),
    KeyEffect("checker.backoff-factor", "2", "By what each wait is longer than the one before.", _RESUME),
    KeyEffect("server-id", "0", "Id with which we register as a replica; 0 chooses a free one.", _CHECK),
    KeyEffect("tracer", "", "Nothing is traced.", kind="warned"),
    KeyEffect(
        "case-sensitive",
        "false",
        "Table patterns are case-sensitive for this source.",
        "dm_master/task_setup/task_split.py",
    ),
    KeyEffect("filters[].schema-pattern", "required", "Schemas that the filter is for.", _FILTER),
    KeyEffect("filters[].table-pattern", "", "Tables that it is for; empty: the schema; `*`: both.", _FILTER),
    KeyEffect("filters[].events", "[]", "Event types, as in a task's filters.", _FILTER),
    KeyEffect("filters[].sql-pattern", "[]", "Regular expressions for statements, as in a task's filters.", _FILTER),
    KeyEffect("filters[].action", "Do", "Do, Ignore or Error; after the task's own filters.", _FILTER),
)
