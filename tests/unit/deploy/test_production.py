"""Hazard: the Compose file for production has an open port, a secret in its environment, no limit, no spare worker."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from pkg.config.master import load_master_config

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy" / "production"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
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
    }
    assert set(found) <= set(COMPOSE["secrets"])
    assert not [key for key in service["environment"] if re.search("PASSWORD|TOKEN", key)]
    assert [port for port in service.get("ports", []) if not port.startswith("127.0.0.1:")] == []
    assert f"{name}-data:/var/lib/dm" in service["volumes"]


@pytest.mark.parametrize("program", ["dm-master", "dm-worker", "dmctl"])
def test_every_program_shows_its_certificate(program: str) -> None:
    settings = tomllib.loads((FOLDER / f"{program}.toml").read_text())
    wanted = {"ssl-ca": "ca", "ssl-cert": "certificate", "ssl-key": "key"}
    if program != "dmctl":
        wanted["secret-key-path"] = "secret-key"
    assert {key: settings[key] for key in wanted} == {key: f"/run/secrets/{file}" for key, file in wanted.items()}


@pytest.mark.parametrize("name", MASTERS)
def test_masters_form_one_etcd_over_tls(name: str, tmp_path: Path) -> None:
    plain = tmp_path / "dm-master.toml"
    # The files with the certificates are only in the container.
    text = (FOLDER / "dm-master.toml").read_text()
    plain.write_text("\n".join(line for line in text.splitlines() if "/run/secrets" not in line))
    arguments = [word for word in SERVICES[name]["command"][1:] if not word.startswith("--config")]
    config = load_master_config([*arguments, "--config", str(plain)])
    assert (config.name, config.advertise_addr) == (name, f"{name}:8261")
    members = dict(one.split("=") for one in config.initial_cluster.split(","))
    assert members == {master: f"https://{master}:8291" for master in MASTERS}
    assert config.advertise_peer_urls == members[name]


def test_secrets_are_never_committed_or_sent_to_a_build() -> None:
    assert "deploy/production/secrets/" in (ROOT / ".gitignore").read_text().split()
    assert "deploy/production/secrets" in (ROOT / ".dockerignore").read_text().split()
    assert all(value["file"].startswith("./secrets/") for value in COMPOSE["secrets"].values())
