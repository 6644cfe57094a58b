"""Hazard: with redact-info-log a row's values still reach the log, inside the text of an error."""

from __future__ import annotations

from pathlib import Path

import pymysql
import pytest

from dm_worker import cli
from pkg import log as logs
from pkg.log import get_logger, hide_values
from pkg.mysql.connection import classify

_PLACE = "(startLocation: [position: (mysql-bin.000001, 890), gtid-set: ], endLocation: [position: (b, 9), gtid-set: ])"


@pytest.mark.parametrize(
    "value", ["4711", "'Miller'", "'O''Neil'", "'a: Error 1 (HY000): b'", "'cut off", "x'4D'", "_binary'\\\\'"]
)
def test_a_rows_values_are_hidden_and_the_rest_stays(value: str) -> None:
    exc = pymysql.err.IntegrityError(
        1062, f"Duplicate entry {value if value[0] == chr(39) else chr(39) + value} for key 'k'"
    )
    error = classify(exc, scope="downstream", statement=f"INSERT INTO t VALUES ({value},1)", table="`s`.`t`")
    text = hide_values(f"[code=10006], Message: {error.message} {_PLACE}, RawCause: {error.raw_cause}")
    assert "Miller" not in text
    assert "4711" not in text
    assert "Neil" not in text
    assert "4D" not in text
    assert ["`s`.`t`" in text, "INSERT ?" in text, _PLACE in text, "code=10006" in text] == [True] * 4


@pytest.mark.parametrize("redact", [False, True])
def test_redacted_log_file(tmp_path: Path, redact: bool) -> None:
    file = tmp_path / "worker.log"
    logs.setup(file=str(file), redact=redact)
    try:
        get_logger("x").error("unit failed", task="t", error="refused: UPDATE t SET name = 'Miller' WHERE id = 4711")
        text = file.read_text()
    finally:
        logs.setup()
    assert ("Miller" in text, "4711" in text) == (not redact, not redact)
    assert "[task=t]" in text


def test_the_workers_setting_is_heeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}
    monkeypatch.setattr(logs, "setup", lambda **settings: given.update(settings))
    monkeypatch.setattr(cli, "_run", lambda config, units: 0)
    cli.serve(["--worker-addr=127.0.0.1:8262", "--join=127.0.0.1:8261", "--redact-info-log"])
    assert given["redact"] is True
