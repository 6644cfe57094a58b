"""What the files of a comparison contain, and what a restart leaves of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from dm_worker.comparison.outcome import Difference, DifferenceKind
from dm_worker.comparison.pair import ComparedColumn, TablePair, TableSide, Way
from dm_worker.comparison.value_forms import Reading
from dm_worker.diff.difference_files import DifferenceFiles
from dm_worker.diff.repairs import Repairs

COLUMNS = tuple(ComparedColumn(name, Reading.SAME) for name in ("id", "text"))
SIDE = TableSide("db", "t", 0, ("`id`", "`text`"), (), ())
PAIR = TablePair(SIDE, (SIDE,), COLUMNS, (0,), (0,), Way.STREAMED, "")
MATCHES = (("`id` <=> ", ""), ("`text` <=> ", ""))
MISSING = Difference(DifferenceKind.MISSING, (b"1",), ("id", "text"), (b"1", b"'a'"), None, 0)
EXTRA = Difference(DifferenceKind.EXTRA, (b"2",), ("id", "text"), None, (b"2", b"NULL"))
CHANGED = Difference(DifferenceKind.CHANGED, (b"3",), ("text",), (b"3", b"'new'"), (b"3", b"'old'"), 0)


KEYLESS = replace(PAIR, key=(), ranged=())


def doubled(upstream: int, target: int) -> Difference:
    row = (b"4", b"'x'")
    return Difference(DifferenceKind.DOUBLED, (), (), row, row, 0, (upstream, target))


def test_each_statement_changes_only_the_row_that_was_read() -> None:
    assert Repairs(PAIR, MATCHES).of(MISSING) == [b"INSERT INTO `db`.`t` (`id`, `text`) VALUES (1, 'a')"]
    assert Repairs(PAIR, MATCHES).of(EXTRA) == [b"DELETE FROM `db`.`t` WHERE `id` <=> 2 AND `text` <=> NULL LIMIT 1"]
    assert Repairs(PAIR, MATCHES).of(CHANGED) == [
        b"UPDATE `db`.`t` SET `text` = 'new' WHERE `id` <=> 3 AND `text` <=> 'old' LIMIT 1"
    ]


def test_a_row_in_another_number_gets_the_upstreams() -> None:
    assert Repairs(KEYLESS, MATCHES).of(doubled(3, 1)) == [b"INSERT INTO `db`.`t` (`id`, `text`) VALUES (4, 'x')"] * 2
    assert Repairs(KEYLESS, MATCHES).of(doubled(1, 3)) == [
        b"DELETE FROM `db`.`t` WHERE `id` <=> 4 AND `text` <=> 'x' LIMIT 2"
    ]


def test_all_equal_rows_of_a_table_without_a_key_are_repaired() -> None:
    assert (
        Repairs(KEYLESS, MATCHES).of(MISSING._replace(key=(), counts=(3, 0)))
        == [b"INSERT INTO `db`.`t` (`id`, `text`) VALUES (1, 'a')"] * 3
    )
    assert Repairs(KEYLESS, MATCHES).of(EXTRA._replace(key=(), counts=(0, 2))) == [
        b"DELETE FROM `db`.`t` WHERE `id` <=> 2 AND `text` <=> NULL LIMIT 2"
    ]


def test_shards_with_one_key_are_not_repaired() -> None:
    assert Repairs(PAIR, MATCHES).of(doubled(2, 1)._replace(key=(b"4",))) == []
    assert Repairs(PAIR, MATCHES).of(MISSING._replace(counts=(2, 0))) == []


def test_a_difference_has_its_key_its_columns_and_both_rows(tmp_path: Path) -> None:
    files = DifferenceFiles(tmp_path / "run", redact=False)
    assert files.resume([])
    files.append(PAIR, MATCHES, [CHANGED])
    assert [json.loads(line) for line in files.differences.read_text().splitlines()] == [
        {
            "table": "`db`.`t`",
            "source": "`db`.`t`",
            "kind": "changed",
            "key": {"id": "3"},
            "columns": ["text"],
            "upstream": {"id": "3", "text": "'new'"},
            "target": {"id": "3", "text": "'old'"},
        }
    ]
    assert b"UPDATE `db`.`t`" in files.repairs.read_bytes()


LITERALS = st.lists(
    st.one_of(st.binary(max_size=9), st.sampled_from([b"'\"\\'", b"\xff", b"'\n\xc3\xa4'"])), min_size=2, max_size=2
)
NAMES = st.lists(st.text(max_size=4), min_size=2, max_size=2, unique=True)


@given(NAMES, LITERALS, LITERALS, st.sampled_from(DifferenceKind), st.booleans())
def test_every_line_is_json_with_what_was_found(
    names: list[str], upstream: list[bytes], target: list[bytes], kind: DifferenceKind, redact: bool
) -> None:
    columns = tuple(ComparedColumn(name, Reading.SAME) for name in names)
    here = None if kind is DifferenceKind.EXTRA else tuple(upstream)
    there = None if kind is DifferenceKind.MISSING else tuple(target)
    source = -1 if here is None else 0
    one = Difference(kind, (b"1",), tuple(names), here, there, source, (2, 3))
    with TemporaryDirectory() as folder:
        files = DifferenceFiles(Path(folder), redact=redact)
        files.resume([])
        files.append(replace(PAIR, columns=columns), MATCHES, [one, one])
        lines = files.differences.read_bytes().splitlines()

    def row(values: tuple[bytes, ...] | None) -> dict[str, str] | None:
        if values is None:
            return None
        shown = (values[0], b"?" if redact else values[1])
        return {name: value.decode("utf-8", "backslashreplace") for name, value in zip(names, shown, strict=True)}

    wanted: dict[str, object] = {
        "table": "`db`.`t`",
        "source": "" if here is None else "`db`.`t`",
        "kind": kind.value,
        "key": {names[0]: "1"},
        "columns": names,
        "upstream": row(here),
        "target": row(there),
    }
    if kind is DifferenceKind.DOUBLED:
        wanted["counts"] = {"upstream": 2, "target": 3}
    assert [json.loads(line) for line in lines] == [wanted, wanted]
    assert list(json.loads(lines[0])) == list(wanted)


def test_redacted_files_have_no_values_but_keys(tmp_path: Path) -> None:
    files = DifferenceFiles(tmp_path / "run", redact=True)
    files.resume([])
    files.append(PAIR, MATCHES, [MISSING, EXTRA, CHANGED])
    files.append(KEYLESS, MATCHES, [doubled(1, 2)])
    text = files.differences.read_text()
    assert "new" not in text
    assert "old" not in text
    assert '"key": {"id": "3"}' in text
    assert files.repairs.read_bytes() == b""


def test_a_restart_cuts_off_what_is_not_recorded(tmp_path: Path) -> None:
    files = DifferenceFiles(tmp_path / "run", redact=False)
    files.resume([])
    end = files.append(PAIR, MATCHES, [MISSING])
    kept = files.differences.read_bytes()
    files.append(PAIR, MATCHES, [EXTRA, CHANGED])
    assert files.resume([end])
    assert files.differences.read_bytes() == kept
    assert b"DELETE" not in files.repairs.read_bytes()


def test_files_that_are_gone_are_noticed_and_begin_empty(tmp_path: Path) -> None:
    first = DifferenceFiles(tmp_path / "here", redact=False)
    first.resume([])
    end = first.append(PAIR, MATCHES, [MISSING])
    other = DifferenceFiles(tmp_path / "elsewhere", redact=False)
    assert not other.resume([end])
    assert other.differences.read_bytes() == b""
