"""Hazard: the Compose file for production has an open port, a secret in its environment, no limit, no spare worker."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from pkg.config.master import MasterConfig, load_master_config

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy" / "production"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
EXTERNAL: dict[str, Any] = yaml.safe_load((FOLDER / "external-etcd.yml").read_text())
ETCDS = [name for name in EXTERNAL["services"] if re.fullmatch(r"etcd[0-9]", name)]
MASTERS = [name for name in SERVICES if name.startswith("dm-master")]
WORKERS = [name for name in SERVICES if name.startswith("dm-worker")]


def test_three_masters_and_a_spare_worker() -> None:
    assert (len(MASTERS), len(WORKERS)) == (3, 3)
    assert set(SERVICES) == {*MASTERS, *WORKERS}
    worker = tomllib.loads((FOLDER / "dm-worker.toml").read_text())
    assert worker["join"] == ",".join(f"{name}:8261" for name in MASTERS)


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_limited_and_gets_its_own_secrets_as_files(name: str) -> None:
    service = SERVICES[name]
    assert service.keys() >= {"mem_limit", "cpus", "pids_limit", "healthcheck"}
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    found = {secret["source"]: secret["target"] for secret in service["secrets"]}
    assert found == {
        "ca": "ca",
        f"{name}-certificate": "certificate",
        f"{name}-key": "key",
        "secret-key": "secret-key",
        "etcd-password": "etcd-password",
    }
    assert set(found) <= set(COMPOSE["secrets"])
    assert not [key for key in service["environment"] if re.search("PASSWORD|TOKEN", key)]
    assert [port for port in service.get("ports", []) if not port.startswith("127.0.0.1:")] == []
    assert f"{name}-data:/var/lib/dm" in service["volumes"]


@pytest.mark.parametrize(
    "program", ["dm-master", "dm-worker", "dmctl", "external-etcd/dm-master", "external-etcd/dm-worker"]
)
def test_every_program_shows_its_certificate(program: str) -> None:
    settings = tomllib.loads((FOLDER / f"{program}.toml").read_text())
    wanted = {"ssl-ca": "ca", "ssl-cert": "certificate", "ssl-key": "key"}
    if program != "dmctl":
        wanted |= {"secret-key-path": "secret-key", "etcd-password-path": "etcd-password"}
    assert {key: settings[key] for key in wanted} == {key: f"/run/secrets/{file}" for key, file in wanted.items()}


@pytest.mark.parametrize("name", MASTERS)
def test_masters_form_one_etcd_over_tls(name: str, tmp_path: Path) -> None:
    plain = tmp_path / "dm-master.toml"
    # The files with the certificates are only in the container.
    plain.write_text(_without_files(FOLDER / "dm-master.toml"))
    config = _master(SERVICES[name], plain)
    assert (config.name, config.advertise_addr) == (name, f"{name}:8261")
    members = dict(one.split("=") for one in config.initial_cluster.split(","))
    assert members == {master: f"https://{master}:8291" for master in MASTERS}
    assert config.advertise_peer_urls == members[name]


def _without_files(path: Path) -> str:
    lines = path.read_text().splitlines()
    return "\n".join(line for line in lines if "/run/secrets" not in line and "etcd-username" not in line)


def _master(service: dict[str, Any], settings: Path) -> MasterConfig:
    arguments = [word for word in service["command"][1:] if not word.startswith("--config")]
    return load_master_config([*arguments, "--config", str(settings)])


def test_three_etcds_of_their_own_with_tls_and_a_password(tmp_path: Path) -> None:
    assert len(ETCDS) == 3
    plain = tmp_path / "dm-master.toml"
    plain.write_text(_without_files(FOLDER / "external-etcd" / "dm-master.toml"))
    for name in MASTERS:
        config = _master(EXTERNAL["services"][name], plain)
        assert (config.name, config.advertise_addr) == (name, f"{name}:8261")
        assert list(config.etcd_endpoints) == [f"https://{etcd}:2379" for etcd in ETCDS]
    worker = tomllib.loads((FOLDER / "external-etcd" / "dm-worker.toml").read_text())
    assert worker["join"] == ",".join(f"{name}:8261" for name in MASTERS)
    for name in ETCDS:
        service = EXTERNAL["services"][name]
        assert service.keys() >= {"mem_limit", "cpus", "pids_limit", "healthcheck"}
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        settings = service["environment"]
        assert (settings["ETCD_CLIENT_CERT_AUTH"], settings["ETCD_PEER_CLIENT_CERT_AUTH"]) == ("true", "true")
        members = dict(one.split("=") for one in settings["ETCD_INITIAL_CLUSTER"].split(","))
        assert members == {etcd: f"https://{etcd}:2380" for etcd in ETCDS}
        assert f"--advertise-client-urls=https://{name}:2379" in service["command"]
        assert "ports" not in service
    assert {secret["source"] for service in EXTERNAL["services"].values() for secret in service.get("secrets", [])} <= {
        *EXTERNAL["secrets"],
        *COMPOSE["secrets"],
    }


def test_secrets_are_never_committed_or_sent_to_a_build() -> None:
    assert "deploy/production/secrets/" in (ROOT / ".gitignore").read_text().split()
    assert "deploy/production/secrets" in (ROOT / ".dockerignore").read_text().split()
    for secrets in (COMPOSE["secrets"], EXTERNAL["secrets"]):
        assert all(value["file"].startswith("./secrets/") for value in secrets.values())
