"""A target's binlog in raw bytes, and what others wrote in it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from hypothesis import strategies as st

from dm_worker.foreign_writes.known_tables import KnownTables
from dm_worker.foreign_writes.suspects import RowKey
from dm_worker.foreign_writes.write_sorter import WriteSorter
from pkg.binlog import constants as c
from pkg.binlog.events import Event
from pkg.binlog.position import Position
from pkg.binlog.table_map import TableMap
from pkg.mysql.names import TableId
from tests.unit.pkg.native.scan_log import Writer

META = "dm_meta"
MARKER, OTHER_MARKER, PROGRESS = (META, "t_syncer_marker"), ("dm_2", "u_syncer_marker"), (META, "t_loader_progress")
TARGETS: list[TableId] = [("d", "t"), ("d", "k"), ("dm_meta2", "t"), ("d", "syncer_markers")]
OTHERS: list[TableId] = [("app", "t"), ("mysql", "gtid_slave_pos")]
OWN: list[TableId] = [MARKER, OTHER_MARKER, PROGRESS]
FILE = "bin.000001"


def key_of(table_map: TableMap, event: Event, file: str) -> tuple[tuple[str, ...], list[RowKey], int]:
    """The last six bytes of an event are the key of its only row."""
    return ("id",), [(event.data[-6:],)], 1


def sorter(start: Position | None = None) -> WriteSorter:
    known = KnownTables(META)
    known.add_others([OTHERS[0]], known.generation)
    return WriteSorter(known, key_of, start or Position(FILE, 4))


@dataclass
class TargetLog:
    """Writes transactions; ``foreign`` are those of others, by where they end: tables with their keys, and statements.
    ``begins``: where transactions begin."""

    form: str
    log: Writer
    foreign: list[tuple[Position, dict[TableId, set[RowKey]], list[str]]] = field(default_factory=list)
    tags: int = 0
    rotations: int = 1
    _ids: dict[TableId, int] = field(default_factory=dict)
    _prepared: dict[int, dict[TableId, set[RowKey]]] = field(default_factory=dict)

    @property
    def end(self) -> Position:
        return Position(self.log.file, self.log.offset)

    def change(self, table: TableId) -> bytes:
        self.tags += 1
        number = self._ids.setdefault(table, len(self._ids) + 1)
        schema, name = (part.encode() for part in table)
        names = bytes([len(schema)]) + schema + b"\0" + bytes([len(name)]) + name + b"\0"
        self.log.add(c.TABLE_MAP_EVENT, number.to_bytes(6, "little") + b"\1\0" + names + b"\1\3\0\0")
        self.log.rows(self.tags, number)
        return b"%06d" % self.tags

    def write(self, tables: list[TableId], words: list[str], end: str) -> None:
        self.log.begin(self.form)
        for word in words:
            self.log.word(word, 0)
        changed: dict[TableId, set[RowKey]] = {}
        for table in tables:
            key = self.change(table)
            if table in TARGETS:
                changed.setdefault(table, set()).add((key,))
        if end == "xid":
            self.log.add(c.XID_EVENT, bytes(8))
        elif end != "prepare":
            self.log.query(end.upper().encode())
        if any(table in OWN for table in tables):
            changed = {}
        if end == "prepare":
            self.tags += 1
            self._prepared[self.tags] = changed
            self.log.add(c.XA_PREPARE_EVENT, b"\0" + struct.pack("<III", 1, 6, 0) + b"%06d" % self.tags)
        elif changed:
            self.foreign.append((self.end, changed, []))

    def end_prepared(self, word: str) -> None:
        for number, changed in list(self._prepared.items())[:1]:
            del self._prepared[number]
            self._single()
            self.log.query(f"XA {word} X'{(b'%06d' % number).hex()}',X'',1".encode())
            if changed and word == "COMMIT":
                self.foreign.append((self.end, changed, []))

    def statement(self, text: str, *, counts: bool) -> None:
        self._single()
        self.log.query(text.encode())
        if counts:
            self.foreign.append((self.end, {}, [text.lower()]))

    def rotate(self) -> None:
        self.rotations += 1
        self.log.rotate(f"bin.{self.rotations:06}")

    def _single(self) -> None:
        if self.form == "mariadb":
            self.log.number += 1
            self.log.add(c.MARIADB_GTID_EVENT, struct.pack("<QIB", self.log.number, 0, 1) + bytes(10))
        elif self.form != "none":
            self.log.mysql_gtid(1)


STATEMENTS = {
    "TRUNCATE TABLE t": True, "ALTER TABLE k ADD c INT": True, "create or replace table t (a INT)": True,
    "DELETE FROM t": True, "CREATE TABLE t2 (a INT)": False, "GRANT ALL ON d.* TO a": False, "FLUSH LOGS": False,
}  # fmt: skip


@st.composite
def target_logs(draw: st.DrawFn) -> TargetLog:
    made = TargetLog(
        draw(st.sampled_from(["mysql", "anonymous", "mariadb", "none"])), Writer(placeless=draw(st.booleans()))
    )
    tables = st.lists(st.sampled_from([*TARGETS, *OTHERS, MARKER, OTHER_MARKER, PROGRESS]), max_size=4)
    for _ in range(draw(st.integers(0, 9))):
        kind = draw(st.sampled_from(["own", "own", "own", "any", "any", "statement", "rotate", "xa", "end"]))
        if kind == "statement":
            text = draw(st.sampled_from(sorted(STATEMENTS)))
            made.statement(text, counts=STATEMENTS[text])
        elif kind == "rotate":
            made.rotate()
        elif kind == "end":
            made.end_prepared(draw(st.sampled_from(["COMMIT", "ROLLBACK"])))
        else:
            words = draw(st.lists(st.sampled_from(["savepoint", "note", "heartbeat"]), max_size=2))
            some = draw(tables)
            ends = ["prepare"] if kind == "xa" else ["xid", "xid", "commit", "rollback"]
            made.write([MARKER, *some] if kind == "own" else some, words, draw(st.sampled_from(ends)))
    return made
