"""Hazard: a misspelt or impossible setting of dm-worker is ignored, or a secret of it is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pkg.config.worker import load_worker_config
from pkg.errors import Code, DMError

W = ["-worker-addr", "127.0.0.1:8262", "-join", ":8261"]


def _file(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return ["-config", str(path)]


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ('[spark]\nslot = 3\n', 40004, "c.toml:2: unknown key 'spark.slot'"),
        ('keepalive-ttl = "60"\n', 40003, "c.toml:1"),
        ("[spark]\nconf = 3\n", 40003, "c.toml:2"),
        ("[spark]\nslots = -1\n", 40003, "spark.slots"),
        ("[spark]\nexecutor-timeout = 0\n", 40003, "spark.executor-timeout"),
        ('[spark.conf]\n"spark.dynamicAllocation.enabled" = true\n', 40003, "spark.dynamicAllocation.enabled"),
    ],
)  # fmt: skip
def test_bad_worker_file_names_the_location(tmp_path: Path, text: str, code: int, place: str) -> None:
    with pytest.raises(DMError) as caught:
        load_worker_config(_file(tmp_path, text))
    assert caught.value.code == code
    assert place in caught.value.message


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ([], 40069),
        (["-worker-addr", ":8262", "-join", "a:1"], 40069),
        (["-worker-addr", "a:1"], 40069),
        (["-worker-addr", "a:1", "-join", "b"], 40069),
        ([*W, "-advertise-addr", "0.0.0.0:1"], 40069),
        ([*W, "extra"], 40002),
        ([*W, "-nam", "x"], 40001),
    ],
)
def test_bad_worker_flags_have_their_codes(argv: list[str], code: int) -> None:
    with pytest.raises(DMError) as caught:
        load_worker_config(argv)
    assert caught.value.code == code
    assert caught.value.workaround


def test_worker_engine_settings(tmp_path: Path) -> None:
    text = '[spark]\nslots = 4\ndriver-memory = "2g"\n[spark.conf]\n"spark.executor.memory" = "2g"\nx = true\n'
    spark = load_worker_config([*W, *_file(tmp_path, text)]).spark
    assert (spark.master, spark.slots, spark.driver_memory) == ("", 4, "2g")
    assert spark.conf == {"spark.executor.memory": "2g", "x": "true"}


def test_a_private_network_of_a_cluster_must_be_asked_for(tmp_path: Path) -> None:
    assert not load_worker_config(W).spark.private_network
    config = load_worker_config([*W, *_file(tmp_path, "[spark]\nprivate-network = true\n")])
    assert config.spark.private_network
    assert "private-network = true" in config.to_toml()


def test_spark_secrets_stay_out_of_what_is_shown(tmp_path: Path) -> None:
    conf = {"spark.authenticate.secret": "hush", "spark.ssl.keyStorePassword": "hush", "spark.x": "seen"}
    text = "[spark.conf]\n" + "".join(f'"{key}" = "{value}"\n' for key, value in conf.items())
    config = load_worker_config([*W, *_file(tmp_path, text)])
    assert config.spark.conf["spark.authenticate.secret"] == "hush"
    assert "seen" in config.to_toml()
    assert "hush" not in config.to_toml() + repr(config)


@pytest.mark.parametrize("budget", ["much", "-1", "31m", "0"])
def test_memory_budget_that_is_no_size_or_too_small_is_refused(tmp_path: Path, budget: str) -> None:
    with pytest.raises(DMError, match=r":2: spark.memory-budget") as caught:
        load_worker_config([*W, *_file(tmp_path, f'[spark]\nmemory-budget = "{budget}"\n')])
    assert caught.value.kind is Code.WorkerDecodeConfigFromFile


@pytest.mark.parametrize("heap", ["479m", "100000k", "0g", "512", "512MiB", "1.5g", "-1g", "much"])
def test_driver_memory_that_spark_would_refuse_is_refused_with_its_line(tmp_path: Path, heap: str) -> None:
    file = _file(tmp_path, f'[spark]\nslots = 2\ndriver-memory = "{heap}"\n')
    with pytest.raises(DMError, match=rf"{re.escape(file[1])}:3: spark.driver-memory '{re.escape(heap)}'") as caught:
        load_worker_config([*W, *file])
    assert caught.value.kind is Code.WorkerDecodeConfigFromFile
    assert caught.value.workaround
    file = _file(tmp_path, f'[spark.conf]\n"spark.driver.memory" = "{heap}"\n')
    with pytest.raises(DMError, match=rf"{re.escape(file[1])}:1: spark.driver.memory "):
        load_worker_config([*W, *file])


@pytest.mark.parametrize("heap", ["", "480m", "491520K", "1g", "1T", "503316480"])
def test_driver_memory_in_java_s_forms(tmp_path: Path, heap: str) -> None:
    file = _file(tmp_path, f'[spark]\ndriver-memory = "{heap}"\n')
    assert load_worker_config([*W, *file]).spark.driver_memory == heap


def test_memory_budget_is_shown(tmp_path: Path) -> None:
    config = load_worker_config([*W, *_file(tmp_path, '[spark]\nmemory-budget = "512m"\n')])
    assert 'memory-budget = "512m"' in config.to_toml()


def test_join_takes_every_address_form() -> None:
    argv = ["-worker-addr", "a:1", "-join", ":8261, http://b:8261/,https://[::1]:5"]
    assert load_worker_config(argv).master_addresses == ("127.0.0.1:8261", "b:8261", "[::1]:5")
