"""Hazard: a log line loses DM's form, is lost by log rotation, or holds a secret or, against the setting, a row."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysql.converters import escape_string

from dm_master.cli import main as master_main
from dm_worker.cli import serve as worker_main
from pkg.process import log as logs
from pkg.process.log_redaction import redact, redact_field

ROW = "INSERT INTO `shop`.`orders` (`id`,`note`) VALUES (4711,'it''s O''Hara')"


@pytest.fixture(autouse=True)
def _untouched() -> Iterator[None]:
    """Leaves the process' logging as it was."""
    root, hook = logging.getLogger("dm"), threading.excepthook
    handlers, level = list(root.handlers), root.level
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    root.propagate = True
    threading.excepthook = hook


def _log(path: Path, **settings: object) -> str:
    logs.setup(file=str(path), **settings)  # type: ignore[arg-type]
    logs.get_logger("test").error("a message", error=ROW, rows=3, password="hunter2")
    return path.read_text()


def test_text_lines(tmp_path: Path) -> None:
    line = _log(tmp_path / "log")
    form = r'\[\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3} [+-]\d\d:\d\d\] \[ERROR\] \[test_log\.py:\d+\] \["a message"\] '
    assert re.match(form, line)
    assert line.endswith(f'[error={json.dumps(ROW)}] [rows=3] [password="******"]\n')


def test_json_lines(tmp_path: Path) -> None:
    line = json.loads(_log(tmp_path / "log", fmt="json"))
    assert (line["level"], line["message"], line["rows"], line["password"]) == ("ERROR", "a message", 3, "******")


@pytest.mark.parametrize("fmt", ["text", "json"])
def test_rows_are_hidden_when_asked(tmp_path: Path, fmt: str) -> None:
    line = _log(tmp_path / "log", fmt=fmt, redact_values=True)
    assert "INSERT INTO `shop`.`orders` (`id`,`note`) VALUES (?,?)" in line
    assert "Hara" not in line
    assert "4711" not in line


def test_a_file_moved_away_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "log"
    first = _log(path)
    path.rename(tmp_path / "old")
    logs.get_logger("test").info("after")
    assert (tmp_path / "old").read_text() == first
    assert "after" in path.read_text()


def test_a_truncated_file_goes_on_at_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _log(path)
    path.write_text("")
    logs.get_logger("test").info("after")
    assert path.read_text().startswith("[")


def test_a_threads_unforeseen_end_is_logged(tmp_path: Path) -> None:
    logs.setup(file=str(tmp_path / "log"))

    def fail() -> None:
        raise LookupError("unforeseen")

    thread = threading.Thread(target=fail, name="the-thread")
    thread.start()
    thread.join()
    text = (tmp_path / "log").read_text()
    assert "[thread=the-thread]" in text
    assert "LookupError: unforeseen" in text


def test_a_log_file_that_cannot_be_written_ends_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = [f"--log-file={tmp_path}", "--advertise-addr=127.0.0.1:1"]
    assert worker_main([*settings, "--worker-addr=127.0.0.1:1", "--join=127.0.0.1:1"]) == 2
    assert master_main([*settings, "--master-addr=127.0.0.1:1"]) == 2
    assert capsys.readouterr().err == f"cannot write log-file {tmp_path}: Is a directory\n" * 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("UPDATE `t1` SET `a`=1,`b`='x' WHERE `c2`=-3.5e1", "UPDATE `t1` SET `a`=?,`b`=? WHERE `c2`=?"),
        ("delete from t where s = \"bob\" and b=b'01'", "delete from t where s = ? and b=?"),
        ("REPLACE INTO t VALUES (0xFF,x'AB',_utf8mb4'h',NULL)", "REPLACE INTO t VALUES (?,?,?,NULL)"),
        ("INSERT INTO `t` VALUES (1,'cut of", "INSERT INTO `t` VALUES (?,?"),
        (
            "refused: INSERT INTO t VALUES (9,'cut…: Error 1062 (23000): Duplicate entry 'O'Hara-9' for key 'k'",
            "refused: INSERT INTO t VALUES (?,?Error 1062 (23000): Duplicate entry ? for key 'k'",
        ),
        (
            "Error 1366 (22007): Incorrect integer value: 'O'Hara' for column `a`.`t`.`x` at row 1",
            "Error 1366 (22007): Incorrect integer value: ? for column `a`.`t`.`x` at row 1",
        ),
        (
            "Error 1292 (22007): Truncated incorrect DOUBLE value: 'abc'",
            "Error 1292 (22007): Truncated incorrect DOUBLE value: ?",
        ),
        ("syntax to use near ''x', 5)' at line 1", "syntax to use near ? at line 1"),
        ("an UPDATE of the row (17, 'bob') of `a`.`t`", "an UPDATE of the row ? of `a`.`t`"),
        ("Duplicate entry (17) for the key of table `a`.`t`", "Duplicate entry ? for the key of table `a`.`t`"),
        ("ALTER TABLE t ADD c INT DEFAULT 5", "ALTER TABLE t ADD c INT DEFAULT 5"),
        ("started at (mysql-bin.000001, 154)", "started at (mysql-bin.000001, 154)"),
    ],
)
def test_values_go_and_the_rest_stays(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_fields_of_any_shape() -> None:
    assert redact_field({"n": 5, "sql": [ROW], "none": None}) == {
        "n": 5,
        "sql": ["INSERT INTO `shop`.`orders` (`id`,`note`) VALUES (?,?)"],
        "none": None,
    }
    assert redact_field(ValueError(ROW)).endswith("VALUES (?,?)")


@given(st.lists(st.text(), min_size=1, max_size=4), st.integers(0, 60))
def test_no_value_survives_wherever_the_statement_is_cut(values: list[str], cut: int) -> None:
    literals = ",".join(f"'{escape_string('§' + value.replace('§', '') + '§')}'" for value in values)
    statement = f"INSERT INTO `db`.`t` VALUES ({literals})"[: 29 + cut]
    assert "§" not in redact(f"refused: {statement}")
