"""Hazard: a misspelt or impossible setting of dm-master is ignored, or others cannot reach its addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from pkg.config.master import load_master_config, sample_master_config
from pkg.config.worker import load_worker_config, sample_worker_config
from pkg.errors import DMError

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
def test_bad_master_file_names_the_location(tmp_path: Path, text: str, code: int, place: str, hint: str) -> None:
    with pytest.raises(DMError) as caught:
        load_master_config(_file(tmp_path, text))
    assert caught.value.code == code
    assert place in caught.value.message
    assert hint in caught.value.workaround


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ([], 38035),
        (["-master-addr", "nohost"], 38035),
        (["-master-addr", ":8261"], 38035),
        (["-master-addr", "0.0.0.0:8261"], 38035),
        ([*M, "-advertise-addr", ":8261"], 38042),
        ([*M, "-advertise-addr", "x"], 38042),
        ([*M, "-peer-urls", "127.0.0.1"], 38039),
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


@pytest.mark.parametrize(
    ("given", "tls", "expected"),
    [
        ("127.0.0.1:8291", [], "http://127.0.0.1:8291"),
        ("127.0.0.1:8291, https://a:2", [], "http://127.0.0.1:8291,https://a:2"),
        ("127.0.0.1:8291", ["-ssl-ca", "/ca.pem"], "https://127.0.0.1:8291"),
    ],
)
def test_peer_urls_without_a_scheme_get_one(given: str, tls: list[str], expected: str) -> None:
    config = load_master_config([*M, *tls, "-name", "m", "-peer-urls", given])
    assert (config.peer_urls, config.advertise_peer_urls) == (expected, expected)
    assert config.initial_cluster == ",".join(f"m={url}" for url in expected.split(","))
