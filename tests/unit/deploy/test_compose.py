"""Hazards: a compose file that names settings the programs lack, runs as root, keeps a secret, or loses data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pkg.config.master import load_master_config
from pkg.config.worker import load_worker_config

ROOT = Path(__file__).resolve().parents[3]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
OURS = sorted(name for name, service in SERVICES.items() if service.get("image") == "dm:latest")
MASTERS = [name for name in OURS if "master" in name]
WORKERS = [name for name in OURS if "worker" in name]


def _arguments(name: str, program: str) -> list[str]:
    """The service's flags, with mounted files as they are in the checkout."""
    first, *arguments = SERVICES[name]["command"]
    assert first == program
    mounts = dict(volume.split(":")[1::-1] for volume in SERVICES[name]["volumes"] if volume.startswith("./"))
    return [str(ROOT / mounts[word]) if word in mounts else word for word in arguments]


def _port(address: str) -> str:
    return address.rpartition(":")[2]


@pytest.mark.parametrize("name", MASTERS)
def test_masters_settings_are_real(name: str) -> None:
    config = load_master_config(_arguments(name, "dm-master"))
    assert (config.name, config.advertise_addr) == (name, f"{SERVICES[name]['hostname']}:{_port(config.master_addr)}")
    advertised = next(word for word in SERVICES["etcd"]["command"] if word.startswith("--advertise-client-urls="))
    assert config.etcd_endpoints == (advertised.partition("=")[2],)
    assert f"localhost:{_port(config.master_addr)}/health" in SERVICES[name]["healthcheck"]["test"][-1]


@pytest.mark.parametrize("name", WORKERS)
def test_workers_settings_are_real_and_join_every_master(name: str) -> None:
    config = load_worker_config(_arguments(name, "dm-worker"))
    assert (config.name, config.advertise_addr) == (name, f"{SERVICES[name]['hostname']}:{_port(config.worker_addr)}")
    masters = [load_master_config(_arguments(master, "dm-master")).advertise_addr for master in MASTERS]
    assert list(config.master_addresses) == masters
    assert f"localhost:{_port(config.worker_addr)}/status" in SERVICES[name]["healthcheck"]["test"][-1]


def test_the_cluster_is_whole() -> None:
    assert (len(MASTERS), len(WORKERS), OURS) == (2, 2, [*MASTERS, *WORKERS, "etcd"])
    assert {"upstream-mariadb", "upstream-mysql", "target"} == set(SERVICES) - set(OURS)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_is_watched_bounded_and_keeps_its_data(name: str) -> None:
    service = SERVICES[name]
    assert service["healthcheck"]["test"]
    assert service["restart"] == "unless-stopped"
    named = [volume.split(":") for volume in service["volumes"] if not volume.startswith(".")]
    assert [(volume in COMPOSE["volumes"], path) for volume, path in named] == [
        (True, "/var/lib/dm" if name in OURS else "/var/lib/mysql")
    ]
    assert service["logging"]["options"].keys() >= {"max-size", "max-file"}
    # Neither the cluster's port nor a database is open to the network unasked.
    assert [port for port in service.get("ports", []) if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("name", OURS)
def test_our_services_run_without_rights_and_end_gracefully(name: str) -> None:
    service = SERVICES[name]
    assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    assert not service.keys() & {"user", "privileged", "cap_add", "pid", "network_mode"}
    # The programs take up to 30 seconds; only then may Docker kill them.
    assert int(service["stop_grace_period"].removesuffix("s")) > 30


def test_no_secret_is_in_the_files() -> None:
    text = "".join(path.read_text() for path in (ROOT / "deploy" / "docker").iterdir())
    values = re.findall(
        r"(?im)^[ \t-]*\w*password\w*[ \t]*[=:][ \t]*(.*)$", f"{(ROOT / 'docker-compose.yml').read_text()}\n{text}"
    )
    assert values
    assert [value for value in values if value and not re.fullmatch(r"\$\{\w+:\?.*\}", value)] == []
    assert {".env", ".git"} <= set((ROOT / ".dockerignore").read_text().split())
    assert ".env" in (ROOT / ".gitignore").read_text().split()
    # A password on a command line is seen by everyone who may list processes.
    checks = [" ".join(service["healthcheck"]["test"]) for service in SERVICES.values()]
    assert [check for check in checks if re.search(r"-p\S*PASSWORD|--password", check)] == []


def test_variables_of_the_compose_file_are_explained() -> None:
    used = set(re.findall(r"(?<!\$)\$\{(\w+)", (ROOT / "docker-compose.yml").read_text()))
    given = set(re.findall(r"(?m)^(\w+)=", (ROOT / "deploy" / "docker" / "env.sample").read_text()))
    assert used == given


def test_the_image_is_not_roots_and_has_what_it_copies() -> None:
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    user = re.findall(r"(?m)^USER (\S+)$", final)
    assert len(user) == 1
    assert f"chown {user[0]}" in final
    assert "--uid 10001" in final
    assert final.index("USER ") > final.rindex("RUN ")
    copied = [source for line in re.findall(r"(?m)^COPY (?!--from)(.*) \S+$", DOCKERFILE) for source in line.split()]
    assert [source for source in copied if not (ROOT / source).exists()] == []
    # Every program that a service starts or a healthcheck calls is installed.
    assert {"curl", "etcd-server", "tini", "util-linux", "openjdk-17-jre-headless"} <= set(final.split())
    # Signals reach the program alone: it ends its children itself, in the right order.
    assert 'ENTRYPOINT ["tini", "--"]' in final


def test_the_image_has_the_compiled_kernel() -> None:
    build = DOCKERFILE.split("\nFROM ")[1]
    copied = {word for line in build.splitlines() if line.startswith("COPY ") for word in line.split()[1:-1]}
    assert {"setup.py", "pyproject.toml", "pkg", "dm_master", "dm_worker", "dmctl"} <= copied
    links = [path.resolve() for source in copied for path in (ROOT / source).rglob("*") if path.is_symlink()]
    assert links
    assert {path.relative_to(ROOT).parts[0] for path in links} <= copied
    assert re.search(r"apt-get install .*\bgcc\b", build)
    # The build fails when it was not compiled, or is not part of what was installed.
    assert "DM_KERNEL=native" in build
