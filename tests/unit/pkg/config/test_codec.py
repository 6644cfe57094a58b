"""Hazards: a setting lost or changed on its way through etcd, a password stored in clear although there is a key."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pkg.config.codec import decode_source, decode_subtask, encode_source, encode_subtask
from pkg.config.model import SourceConfig, SubTaskConfig
from pkg.errors import Code, DMError
from pkg.settings.connections import DBConfig
from tests.sweeps import examples

KEY = bytes(range(32))
VERSION_BEFORE = Path(__file__).parents[3] / "e2e" / "data" / "version-before.tar.xz"
_keys = st.sampled_from([b"", KEY])
# Surrogates cannot come out of a YAML or TOML file.
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
st.register_type_strategy(str, _text)
# No duration or factor in a file can be NaN, which equals nothing.
st.register_type_strategy(float, st.floats(allow_nan=False))


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=examples(30))
@given(st.builds(SourceConfig, from_=st.builds(DBConfig)), _keys)
def test_source_survives(config: SourceConfig, key: bytes) -> None:
    assert decode_source(encode_source(config, key), key) == config


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=examples(30))
@given(st.from_type(SubTaskConfig), _keys)
def test_subtask_survives(config: SubTaskConfig, key: bytes) -> None:
    assert decode_subtask(encode_subtask(config, key), key) == config


def _source(password: str = "s3cret") -> SourceConfig:
    return SourceConfig("mysql-01", DBConfig("127.0.0.1", 3306, password=password))


def test_password_is_sealed_when_there_is_a_key() -> None:
    text = encode_source(_source(), KEY)
    assert "s3cret" not in text
    assert decode_source(text, KEY).from_.password == "s3cret"


def test_plain_password_that_looks_like_ciphertext_survives_without_key() -> None:
    sealed = json.loads(encode_source(_source(), KEY))["from_"]["password-encrypted"]
    assert decode_source(encode_source(_source(sealed), b""), KEY).from_.password == sealed


def test_missing_key_is_reported() -> None:
    with pytest.raises(DMError) as caught:
        decode_source(encode_source(_source(), KEY), b"")
    assert caught.value.kind is Code.ConfigDecryptDBPassword
    assert "secret-key-path" in caught.value.workaround


def test_field_of_an_older_version_gets_its_default() -> None:
    data = json.loads(encode_source(_source()))
    del data["case_sensitive"]
    assert decode_source(json.dumps(data)) == _source()


def test_the_version_before_reads_what_does_not_use_a_new_field(tmp_path: Path) -> None:
    """A rollback. Fields that version does not know are marked as added in the model."""
    with tarfile.open(VERSION_BEFORE) as archive:
        archive.extractall(tmp_path, filter="data")
    script = (
        "import sys; from pkg.config.codec import decode_source, decode_subtask; "
        "print(decode_source(sys.argv[1]).source_id, decode_subtask(sys.argv[2]).name)"
    )
    task = SubTaskConfig("t1", "mysql-01", "all", DBConfig("127.0.0.1", 3306), DBConfig("127.0.0.1", 4000))
    command = [sys.executable, "-c", script, encode_source(_source(), b""), encode_subtask(task, b"")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("mysql-01 t1\n", 0), done.stderr


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"new_field": 1}, "new_field"),
        ({"enable": "yes"}, "enable"),
        ({"server_id": 1.5}, "server_id"),
        ({"from_": {"host": "x", "port": "3306"}}, "port"),
        ({"filters": {}}, "filters"),
    ],
)
def test_foreign_text_is_refused_naming_the_field(change: dict[str, object], where: str) -> None:
    data = {**json.loads(encode_source(_source())), **change}
    with pytest.raises(DMError) as caught:
        decode_source(json.dumps(data))
    assert caught.value.kind is Code.ConfigEtcdParse
    assert where in caught.value.raw_cause


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name":"t"}'])
def test_text_that_is_no_config_is_refused(text: str) -> None:
    with pytest.raises(DMError) as caught:
        decode_subtask(text)
    assert caught.value.kind is Code.ConfigEtcdParse
