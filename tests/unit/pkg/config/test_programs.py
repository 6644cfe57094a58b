"""Hazards: a misspelt setting that is silently ignored, a flag form of scripts that fails, an unreachable address."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.config.master import load_master_config, sample_master_config
from pkg.config.worker import load_worker_config, sample_worker_config
from pkg.errors import Code, DMError
from pkg.settings.options import to_toml
from pkg.settings.units import format_duration, parse_duration, parse_size, split_address

M = ["-master-addr", "127.0.0.1:8261"]
W = ["-worker-addr", "127.0.0.1:8262", "-join", ":8261"]


def _file(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return ["-config", str(path)]


def test_defaults_of_a_lone_master() -> None:
    config = load_master_config([*M, "-name", "m1"])
    assert config.advertise_addr == "127.0.0.1:8261"
    assert config.data_dir == "default.m1"
    assert config.initial_cluster == "m1=http://127.0.0.1:8291"
    assert config.etcd_client_urls == "http://127.0.0.1:9261"
    assert (config.rpc_timeout, config.rpc_rate_limit, config.rpc_rate_burst) == (30.0, 10.0, 40)
    assert config.security is None


@pytest.mark.parametrize("form", [["-L=debug"], ["--L", "debug"], ["-log-level", "debug"], ["--log-level=debug"]])
def test_every_go_form_of_a_flag_works(form: list[str]) -> None:
    assert load_master_config([*M, *form]).log_level == "debug"
    assert load_worker_config([*W, *form]).log_level == "debug"


def test_flags_beat_the_file(tmp_path: Path) -> None:
    args = _file(tmp_path, 'name = "file"\nmaster-addr = "10.0.0.1:1"\n')
    config = load_master_config([*args, "--name=flag"])
    assert (config.name, config.master_addr) == ("flag", "10.0.0.1:1")


def test_bool_flags_take_no_word() -> None:
    assert load_master_config([*M, "-openapi", "-name", "x"]).openapi
    assert not load_master_config([*M, "-openapi=false"]).openapi


@pytest.mark.parametrize("flag", ["-V", "--V", "-version"])
def test_version_needs_no_other_setting(flag: str) -> None:
    assert load_master_config([flag]).version
    assert load_worker_config([flag]).version


def test_samples_are_shipped_and_load(tmp_path: Path) -> None:
    assert load_master_config(["-print-sample-config"]).print_sample_config
    assert load_worker_config(["--print-sample-config"]).print_sample_config
    master = load_master_config(_file(tmp_path, sample_master_config()))
    assert master == load_master_config([*M, "-name", "master1", "-master-addr", ":8261", "-advertise-addr",
                                         "127.0.0.1:8261", "-config", master.config])  # fmt: skip
    assert load_worker_config(_file(tmp_path, sample_worker_config())).name == "worker1"


@pytest.mark.parametrize(
    ("text", "code", "place", "hint"),
    [
        ('master-addr = ":1"\nmaster-adr = ":2"\n', 38011, "c.toml:2", "master-addr"),
        ('[spark]\nmaster = "x"\n', 38011, "c.toml:1", ""),
        ("name = 5\n", 38013, "c.toml:1", "-print-sample-config"),
        ("rpc-timeout = 30\n", 38013, "c.toml:1", ""),
        ('rpc-timeout = "30"\n', 38013, "c.toml:1", ""),
        ("name = \n", 38013, "c.toml", ""),
        ('log-level = "loud"\n', 38013, "log-level", "debug"),
    ],
)
def test_bad_master_file_names_the_place(tmp_path: Path, text: str, code: int, place: str, hint: str) -> None:
    with pytest.raises(DMError) as caught:
        load_master_config(_file(tmp_path, text))
    assert caught.value.code == code
    assert place in caught.value.message
    assert hint in caught.value.workaround


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
def test_bad_worker_file_names_the_place(tmp_path: Path, text: str, code: int, place: str) -> None:
    with pytest.raises(DMError) as caught:
        load_worker_config(_file(tmp_path, text))
    assert caught.value.code == code
    assert place in caught.value.message


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ([], 38035),
        (["-master-addr", "nohost"], 38035),
        (["-master-addr", ":8261"], 38035),
        (["-master-addr", "0.0.0.0:8261"], 38035),
        ([*M, "-advertise-addr", ":8261"], 38042),
        ([*M, "-advertise-addr", "x"], 38042),
        ([*M, "-peer-urls", "127.0.0.1:8291"], 38039),
        ([*M, "-advertise-peer-urls", "http://0.0.0.0:8291"], 38050),
        ([*M, "-join", "a:1", "-initial-cluster", "m=http://a:2"], 38037),
        ([*M, "-mastr-addr", "x"], 38010),
        ([*M, "-max-txn-ops", "many"], 38010),
        ([*M, "-name"], 38010),
        ([*M, "start"], 38012),
        ([*M, "-config", "/no/such/file"], 20018),
        ([*M, "-secret-key-path", "/no/such/key"], 20067),
        ([*M, "-v1-sources-path", "/old"], 38053),
    ],
)
def test_bad_master_flags_have_their_codes(argv: list[str], code: int) -> None:
    with pytest.raises(DMError) as caught:
        load_master_config(argv)
    assert caught.value.code == code
    assert caught.value.workaround


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


def test_secrets_stay_out_of_what_is_shown(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("ab" * 32)
    pem = "-----BEGIN KEY-----x"
    config = load_master_config([*M, *_file(tmp_path, f'ssl-key-bytes = "{pem}"\n'), "-secret-key-path", str(key)])
    assert config.secret_key == bytes.fromhex("ab" * 32)
    assert config.security is not None
    assert config.security.ssl_key_bytes == pem.encode()
    for shown in (config.to_toml(), repr(config)):
        assert pem not in shown
        assert "abab" not in shown


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


def test_shown_settings_can_be_used_again(tmp_path: Path) -> None:
    master = load_master_config([*M, "-name", 'a"\\b', "-cert-allowed-cn", "x,y"])
    shown = master.to_toml()
    again = load_master_config(_file(tmp_path, shown))
    assert again.to_toml() == shown
    worker = load_worker_config([*W, *_file(tmp_path, '[spark.conf]\n"spark.a" = "b"\n')])
    assert load_worker_config(_file(tmp_path, worker.to_toml())).to_toml() == worker.to_toml()


def test_external_etcd_needs_no_peer_settings() -> None:
    config = load_master_config([*M, "-peer-urls", "nonsense", "-etcd-endpoints", "http://a:1,http://b:1"])
    assert config.etcd_endpoints == ("http://a:1", "http://b:1")


def test_joining_master_has_no_initial_cluster() -> None:
    assert load_master_config([*M, "-join", "127.0.0.1:9"]).initial_cluster == ""


def test_small_quota_is_raised() -> None:
    assert load_master_config([*M, "-quota-backend-bytes", "1"]).quota_backend_bytes == 500 * 1024 * 1024


_toml = st.one_of(st.booleans(), st.integers(), st.text(st.characters(exclude_categories=["Cs"])))


@given(st.dictionaries(st.from_regex(r"[a-z-]+", fullmatch=True), _toml | st.lists(st.text('ab"\\\n\x7f'))))
def test_written_toml_reads_the_same(settings: dict[str, object]) -> None:
    assert tomllib.loads(to_toml(settings)) == settings


@given(st.integers(0, 10**6).map(lambda n: n / 8))
def test_durations_survive_being_written(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("1h2m3.5s", 3723.5), ("500ms", 0.5), ("-5s", -5), (".5m", 30)]
)
def test_go_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5 s", "s", "1d", "1h-2m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_sizes() -> None:
    assert parse_size("64", 1 << 20) == parse_size("64MiB") == parse_size("64m") == parse_size("64 MB") == 64 << 20
    assert parse_size("1.5K") == 1536
    for text in ("", "M", "-1", "64X", "1e3"):
        with pytest.raises(ValueError, match="size"):
            parse_size(text)


@pytest.mark.parametrize("text", ["", "a", "a:", "a:b", "a:99999", "::1:80", "http://a:1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="address"):
        split_address(text)
