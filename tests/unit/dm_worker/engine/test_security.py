"""Hazard: an unprotected cluster gets the passwords of upstream and target, and runs code of strangers."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.local.cluster import environment, program
from dm_worker.engine.security import missing_protection, properties, require_protection
from pkg.config.worker import load_worker_config
from pkg.errors import DMError

STANDALONE = "spark://10.0.0.1:7077"
AUTHENTICATE = {"spark.authenticate": "true", "spark.authenticate.secret": "s"}
CRYPTO = {"spark.network.crypto.enabled": "TRUE"}
ALL = ["spark.authenticate = true", "spark.authenticate.secret", "spark.network.crypto.enabled = true"]


@pytest.mark.parametrize("master", ["local", "local[2,4]", "local[*]"])
def test_the_embedded_engine_needs_nothing(master: str) -> None:
    assert missing_protection(master, {}) == []


@pytest.mark.parametrize(
    ("master", "conf", "missing"),
    [
        (STANDALONE, {}, ALL),
        ("local-cluster[2,1,1024]", {}, ALL),
        ("something-new://x", {}, ALL),
        (STANDALONE, AUTHENTICATE | CRYPTO, []),
        (STANDALONE, AUTHENTICATE, ALL[2:]),
        (STANDALONE, CRYPTO, ALL[:2]),
        (STANDALONE, AUTHENTICATE | CRYPTO | {"spark.authenticate.secret": " "}, ALL[1:2]),
        (STANDALONE, AUTHENTICATE | CRYPTO | {"spark.authenticate": "false"}, ALL[:1]),
        (STANDALONE, AUTHENTICATE | {"spark.ssl.rpc.enabled": "true"}, []),
        (STANDALONE, AUTHENTICATE | {"spark.authenticate.enableSaslEncryption": "true"}, ALL[2:]),
        ("yarn", {"spark.authenticate": "true"} | CRYPTO, []),
        ("yarn", CRYPTO, ALL[:1]),
        ("k8s://https://h:443", {"spark.authenticate": "true"}, ALL[2:]),
        ("k8s://https://h:443", {"spark.authenticate": "true"} | CRYPTO, []),
    ],
)
def test_a_cluster_needs_authentication_and_encryption(
    master: str, conf: Mapping[str, str], missing: list[str]
) -> None:
    assert missing_protection(master, conf) == missing


def test_sparks_own_defaults_are_read_as_spark_reads_them() -> None:
    text = "# c\n! c\n\n spark.authenticate   true \nspark.authenticate.secret=a b\nspark.x: y\nspark.empty\n"
    assert properties(text) == {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "a b",
        "spark.x": "y",
        "spark.empty": "",
    }


def _config(folder: Path, more: str = "") -> list[str]:
    path = folder / "dm-worker.toml"
    path.write_text(
        f'worker-addr = "127.0.0.1:1"\njoin = "127.0.0.1:2"\n[spark]\nmaster = "{STANDALONE}"\n{more}[spark.conf]\n'
        + "".join(f'"{key}" = "{value}"\n' for key, value in AUTHENTICATE.items())
    )
    return ["--config", str(path)]


@pytest.fixture(autouse=True)
def defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ``spark-defaults.conf`` of this machine, to be written."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    (tmp_path / "conf").mkdir()
    return tmp_path / "conf" / "spark-defaults.conf"


def test_a_worker_does_not_start_with_an_open_cluster(tmp_path: Path) -> None:
    argv = _config(tmp_path)
    done = subprocess.run(
        program("dm_worker.cli", *argv), env=environment(), capture_output=True, text=True, check=False, timeout=60
    )
    said = done.stderr
    # Nothing that runs the program starts it again with the same settings.
    assert done.returncode == 2
    assert "code=40003" in said
    assert f"{argv[1]}:4: " in said
    assert f"{STANDALONE} is used without spark.network.crypto.enabled = true:" in said
    assert "private-network = true under [spark]" in said


def test_what_sparks_own_configuration_says_counts(tmp_path: Path, defaults: Path) -> None:
    defaults.write_text("spark.network.crypto.enabled true\n")
    require_protection(load_worker_config(_config(tmp_path)))
    defaults.write_text("spark.network.crypto.enabled true\nspark.authenticate false\n")
    require_protection(load_worker_config(_config(tmp_path)))  # the worker's own settings win
    defaults.unlink()
    with pytest.raises(DMError, match="40003"):
        require_protection(load_worker_config(_config(tmp_path)))


def test_a_private_network_is_the_operators_word(tmp_path: Path) -> None:
    require_protection(load_worker_config(_config(tmp_path, "private-network = true\n")))
