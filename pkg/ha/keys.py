"""DM's key layout in etcd. Segments after the base path are hex-encoded, so any name is safe."""

from __future__ import annotations

from dataclasses import dataclass

from pkg.errors import Code, new


@dataclass(frozen=True, slots=True)
class KeyFamily:
    """Keys ``<base>/<hex segment>/…`` with a fixed number of segments."""

    base: str
    segments: tuple[str, ...]

    def key(self, *names: str) -> str:
        """The key for all segments. Raises 42502 for a wrong number of names or an empty one."""
        if len(names) != len(self.segments) or not all(names):
            raise new(Code.HAInvalidItem, f"key {self.base} needs {self.segments}, got {names}")
        return "/".join((self.base, *map(_encode, names)))

    def prefix(self, *names: str) -> str:
        """The prefix of all keys that begin with the given segments; it takes fewer segments than the key."""
        if len(names) >= len(self.segments):
            raise new(Code.HAInvalidItem, f"a prefix of {self.base} takes fewer than {self.segments}, got {names}")
        return "/".join((self.base, *map(_encode, names))) + "/"

    def names(self, key: str) -> tuple[str, ...]:
        """The decoded segments of ``key``; raises 42502 if it is not of this family."""
        parts = key.removeprefix(self.base + "/").split("/")
        if not key.startswith(self.base + "/") or len(parts) != len(self.segments):
            raise new(Code.HAInvalidItem, f"{key!r} is not a key of {self.base}")
        try:
            return tuple(bytes.fromhex(part).decode() for part in parts)
        except ValueError as exc:
            raise new(Code.HAInvalidItem, f"{key!r} has a segment that is not hex-encoded text", raw=exc) from exc


def _encode(name: str) -> str:
    return name.encode().hex()


WORKER = KeyFamily("/dm-worker/r", ("worker",))
WORKER_ALIVE = KeyFamily("/dm-worker/a", ("worker",))
SOURCE_CONFIG = KeyFamily("/dm-master/v2/upstream/config", ("source",))
BOUND = KeyFamily("/dm-master/bound-worker", ("worker",))
LAST_BOUND = KeyFamily("/dm-master/last-bound-worker", ("worker",))
RELAY_WORKER = KeyFamily("/dm-master/relay-worker", ("worker",))
SUBTASK = KeyFamily("/dm-master/upstream/subtask", ("source", "task"))
SUBTASK_STAGE = KeyFamily("/dm-master/stage/subtask", ("source", "task"))
VALIDATOR_STAGE = KeyFamily("/dm-master/stage/validator", ("source", "task"))
RELAY_STAGE = KeyFamily("/dm-master/v2/stage/relay", ("source",))
LOAD_TASK = KeyFamily("/dm-master/load-task", ("task", "source"))
TASK_CLI_ARGS = KeyFamily("/dm-master/task-cli-args", ("task", "source"))
#: The task file as the operator wrote it. This key is ours; DM builds the file from its subtasks.
TASK_TEXT = KeyFamily("/dm-master/upstream/task", ("task",))

#: Operators' orders for statements of the binlog, by position (``mysql-bin.000001:1234``). Ours; DM does not store
#: them.
BINLOG_OPERATOR = KeyFamily("/dm-master/binlog-operator", ("source", "task", "position"))

#: A task's cutover, and what each of its workers watches afterwards. Ours.
CUTOVER = KeyFamily("/dm-master/cutover", ("task",))
CUTOVER_WATCH = KeyFamily("/dm-master/cutover-watch", ("source", "task"))

#: All keys of the DDL locks of shard groups.
SHARD_DDL_PREFIX = "/dm-master/shardddl-pessimism/"
#: DM keeps one DDL per source and task; with the target table in the key, several groups can wait at once.
SHARD_DDL_INFO = KeyFamily(f"{SHARD_DDL_PREFIX}info", ("task", "source", "schema", "table"))
SHARD_DDL_OPERATION = KeyFamily(f"{SHARD_DDL_PREFIX}operation", ("task", "source", "schema", "table"))
#: These two are ours: an operator's order survives the master that took it; no lock waits for a source without shards.
SHARD_DDL_UNLOCK = KeyFamily(f"{SHARD_DDL_PREFIX}unlock", ("task", "schema", "table"))
SHARD_DDL_TABLES = KeyFamily(f"{SHARD_DDL_PREFIX}source-tables", ("task", "source"))

#: The event log: a ring of entries by slot, and how many were written in all. Ours.
EVENT = KeyFamily("/dm-master/event-log/entry", ("slot",))
EVENT_COUNT = "/dm-master/event-log/count"

#: The election's prefix; the key ends with the lease id in hex.
LEADER_PREFIX = "/dm-master/leader/"


def leader_key(lease_id: int) -> str:
    return f"{LEADER_PREFIX}{lease_id:x}"
