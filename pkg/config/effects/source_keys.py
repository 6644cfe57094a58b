"""The keys of a source file, in the order in which files are written. Pure data."""

from __future__ import annotations

from pkg.config.effects.effect import KeyEffect, effects_of
from pkg.config.effects.shared_keys import database
from pkg.config.model import CheckerConfig, PurgeConfig, SourceConfig
from pkg.rules.keys import FILTER
from pkg.settings.keys import Block, FileKey, FilePart

_CHECK = "dm_master/precheck/source_check.py"
_RESUME = "dm_worker/subtask/auto_resume.py"
_RELAY = "dm_worker/relay/relay.py"
_RELAY_CLIENT = "dm_worker/relay/relay_client.py"
_SPLIT = "dm_master/task_setup/task_split.py"

SOURCE_KEYS: tuple[FilePart, ...] = (
    FileKey("enable", "Whether tasks may run on the source.", "dm_master/service/task_steps.py"),
    FileKey(
        "enable-gtid",
        "Replicates by GTID instead of file and position.",
        "dm_worker/syncer/unit/stream_opener.py",
    ),
    FileKey("auto-fix-gtid", "GTIDs are never changed.", kind="warned", default="false"),
    FileKey(
        "relay-dir",
        "Folder of the relay log; `relay-dir` of the worker overrides it. Deprecated, warned of.",
        "dm_worker/source/source_worker.py",
    ),
    FileKey("meta-dir", "The state is in etcd and in the target.", kind="warned"),
    FileKey("flavor", "mysql or mariadb; must be the server's. Empty asks the server.", _CHECK),
    FileKey("charset", "Every connection uses utf8mb4; the charsets of the data are in the binlog.", kind="warned"),
    FileKey(
        "enable-relay",
        "Keeps the binlog in local files, which tasks then read.",
        "dm_master/scheduling/relay_stage.py",
    ),
    FileKey(
        "relay-binlog-name",
        "First file of the relay log if no task has a checkpoint; its form is checked (40007).",
        _RELAY_CLIENT,
    ),
    FileKey(
        "relay-binlog-gtid",
        "The same as a GTID set, with enable-gtid. Its form is checked (11093, 11095); without enable-gtid it is "
        "warned of.",
        _RELAY_CLIENT,
    ),
    FileKey(
        "source-id",
        "Name of the upstream in task files, at most 32 characters, without slashes.",
        _SPLIT,
        default="required",
    ),
    database(
        "from",
        FileKey("max-allowed-packet", "The upstream's own limit counts.", kind="warned", default="67108864"),
        "from_",
    ),
    Block(
        "purge",
        (
            FileKey("interval", "Seconds between two checks of the relay files; 0 never checks.", _RELAY),
            FileKey("expires", "Hours after which a relay file is removed that no task needs; 0 never.", _RELAY),
            FileKey("remain-space", "GB to keep free on the relay log's disk.", _RELAY),
        ),
        model=PurgeConfig,
    ),
    Block(
        "checker",
        (
            FileKey(
                "check-enable",
                "Resumes tasks that paused by an error that may pass. A relay tries again by itself.",
                _RESUME,
            ),
            FileKey(
                "backoff-rollback",
                "After this time without an error, the wait becomes shorter again.",
                _RESUME,
                default="5m",
            ),
            FileKey(
                "backoff-max",
                "The longest wait between two tries; of a relay, up to 30s.",
                _RESUME,
                default="5m",
            ),
            FileKey(
                "check-interval",
                "How often paused tasks are checked.",
                "dm_worker/source/source_worker.py",
                default="5s",
            ),
            FileKey("backoff-min", "The shortest wait between two tries.", _RESUME, default="1s"),
            FileKey("backoff-jitter", "Waits vary at random.", _RESUME),
            FileKey("backoff-factor", "By what each wait is longer than the one before.", _RESUME, default="2"),
        ),
        model=CheckerConfig,
    ),
    FileKey("server-id", "Id with which we register as a replica; 0 chooses a free one.", _CHECK),
    FileKey("tracer", "Nothing is traced.", kind="warned", free=True),
    FileKey("case-sensitive", "Table patterns are case-sensitive for this source.", _SPLIT),
    Block("filters", FILTER, "items"),
)
SOURCE_EFFECTS: tuple[KeyEffect, ...] = tuple(effects_of(SOURCE_KEYS, model=SourceConfig))
