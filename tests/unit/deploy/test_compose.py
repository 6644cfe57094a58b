"""Hazards: a compose file that names settings the programs lack, runs as root, keeps a secret, or loses data."""

from __future__ import annotations

import fnmatch
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.find_spark_home import _find_spark_home

from dm_worker.engine.security import missing_protection, properties
from pkg.config.master import load_master_config
from pkg.config.worker import load_worker_config

ROOT = Path(__file__).resolve().parents[3]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
HEALTH = (ROOT / "deploy" / "docker" / "dm-health").read_text()
OUR_IMAGE = "dm:${DM_VERSION:-0.2.0}"
OURS = sorted(name for name, service in SERVICES.items() if service["image"] == OUR_IMAGE)
MASTERS = [name for name in OURS if name.startswith("dm-master")]
WORKERS = [name for name in OURS if name.startswith("dm-worker")]
SPARK = ["spark-master", "spark-worker"]
MONITORING = {"prometheus": "/prometheus", "grafana": "/var/lib/grafana"}


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
    assert f'*" dm-master "*) url=http://localhost:{_port(config.master_addr)}/readyz' in HEALTH


@pytest.mark.parametrize("name", WORKERS)
def test_workers_settings_are_real_and_join_every_master(name: str) -> None:
    config = load_worker_config(_arguments(name, "dm-worker"))
    assert (config.name, config.advertise_addr) == (name, f"{SERVICES[name]['hostname']}:{_port(config.worker_addr)}")
    masters = [load_master_config(_arguments(master, "dm-master")).advertise_addr for master in MASTERS]
    assert list(config.master_addresses) == masters
    assert f'*" dm-worker "*) url=http://localhost:{_port(config.worker_addr)}/readyz' in HEALTH


def test_the_cluster_is_whole() -> None:
    assert (len(MASTERS), len(WORKERS), OURS) == (2, 3, sorted([*MASTERS, *WORKERS, *SPARK, "etcd"]))
    assert {"upstream-mariadb", "upstream-mysql", "target", *MONITORING} == set(SERVICES) - set(OURS)
    profiles = {name: service["profiles"] for name, service in SERVICES.items() if "profiles" in service}
    spark = {name: ["spark"] for name in (*SPARK, "dm-worker-spark")}
    assert profiles == {**spark, **{name: ["monitoring"] for name in MONITORING}}


def test_one_service_builds_the_image_that_all_run() -> None:
    builds = {name: service["build"] for name, service in SERVICES.items() if "build" in service}
    assert list(builds) == ["dm-master1"]
    declared = dict(re.findall(r"(?m)^ARG (\w+)=(\S+)$", DOCKERFILE))
    used = {name: re.sub(r"\$\{\w+:-(.*)\}", r"\1", value) for name, value in builds["dm-master1"]["args"].items()}
    assert used == {name: declared[name] for name in used}, "the same defaults as in the Dockerfile"
    assert f"dm:{declared['VERSION']}" == OUR_IMAGE.replace("${DM_VERSION:-", "").replace("}", "")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert declared["VERSION"] == project["version"]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_images_have_a_full_version(name: str) -> None:
    tag = SERVICES[name]["image"].partition(":-")[2].rstrip("}").rpartition(":")[2]
    assert re.fullmatch(r"v?\d+\.\d+\.\d+", tag), tag


def test_the_spark_cluster_lets_nobody_in_and_shares_the_dumps() -> None:
    sample = properties((ROOT / "deploy" / "docker" / "spark" / "spark-defaults.sample").read_text())
    assert missing_protection("spark://x", {**sample, "spark.authenticate.secret": "given"}) == []
    assert sample["spark.authenticate.secret"] == "", "the sample has no secret"
    assert sample["spark.master.rest.enabled"] == "false"
    worker = load_worker_config(_arguments("dm-worker-spark", "dm-worker"))
    master = SERVICES["spark-master"]["command"]
    assert worker.spark.master == f"spark://{SERVICES['spark-master']['hostname']}:{master[master.index('--port') + 1]}"
    # A tmpfs of Docker is noexec: there the shuffle's compression would find no native code.
    assert "-Djava.io.tmpdir=/var/lib/dm/" in worker.spark.conf["spark.executor.extraJavaOptions"]
    assert worker.spark.conf["spark.driver.host"] == SERVICES["dm-worker-spark"]["hostname"]
    for name in (*SPARK, "dm-worker-spark"):
        assert SERVICES[name]["environment"]["SPARK_CONF_DIR"] == "/etc/dm/spark"
        assert "./deploy/docker/spark:/etc/dm/spark:ro" in SERVICES[name]["volumes"]
    assert all("dumps:/dumps" in SERVICES[name]["volumes"] for name in ("spark-worker", "dm-worker-spark"))
    assert "deploy/docker/spark/spark-defaults.conf" in (ROOT / ".gitignore").read_text().split()


def test_left_out_jars_are_of_the_installed_spark_and_not_its_core() -> None:
    lines = (ROOT / "deploy" / "docker" / "unused-jars.txt").read_text().splitlines()
    patterns = [line for line in lines if not line.startswith("#")]
    jars = [path.name for path in Path(_find_spark_home(), "jars").iterdir()]
    left_out = {jar for pattern in patterns for jar in fnmatch.filter(jars, pattern)}
    assert [pattern for pattern in patterns if not fnmatch.filter(jars, pattern)] == []
    parts = ("core", "launcher", "network-common", "network-shuffle", "kvstore", "unsafe", "yarn", "kubernetes", "tags")
    needed = {jar for jar in jars if jar.startswith(tuple(f"spark-{part}_" for part in parts))}
    assert len(needed) == len(parts)
    assert needed & left_out == set()


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_is_watched_bounded_and_keeps_its_data(name: str) -> None:
    service = SERVICES[name]
    assert service["healthcheck"]["test"]
    assert service["restart"] == "unless-stopped"
    named = [volume.split(":") for volume in service["volumes"] if not volume.startswith((".", "/", "dumps:"))]
    if name in SPARK:
        assert named == [], "nothing of it must outlive the container"
        assert "/var/lib/dm" in service["volumes"]
    else:
        path = "/var/lib/dm" if name in OURS else MONITORING.get(name, "/var/lib/mysql")
        assert [(volume in COMPOSE["volumes"], where) for volume, where in named] == [(True, path)]
    assert service["logging"]["options"].keys() >= {"max-size", "max-file"}
    # Neither the cluster's port nor a database is open to the network unasked.
    assert [port for port in service.get("ports", []) if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("name", OURS)
def test_our_services_run_without_rights_and_end_gracefully(name: str) -> None:
    service = SERVICES[name]
    assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    assert (service["read_only"], service["tmpfs"]) == (True, ["/tmp:size=64m,mode=1777"])
    assert not service.keys() & {"user", "privileged", "cap_add", "pid", "network_mode"}
    # The programs take up to 30 seconds; only then may Docker kill them.
    assert int(service["stop_grace_period"].removesuffix("s")) > 30


def test_no_secret_is_in_the_files() -> None:
    files = [path for path in (ROOT / "deploy" / "docker").rglob("*") if path.is_file()]
    files = [path for path in files if path.suffix not in (".conf", ".pyc")]
    text = "".join(path.read_text() for path in files)
    values = re.findall(
        r"(?im)^[ \t-]*\w*password\w*[ \t]*[=:][ \t]*(.*)$", f"{(ROOT / 'docker-compose.yml').read_text()}\n{text}"
    )
    assert values
    # Single quotes: without them Compose would take a `$` in a password for a variable.
    assert [value for value in values if not re.fullmatch(r"\$\{\w+:\?.*\}|''", value)] == []
    assert {".env", ".git"} <= set((ROOT / ".dockerignore").read_text().split())
    assert ".env" in (ROOT / ".gitignore").read_text().split()
    # A password on a command line is seen by everyone who may list processes.
    checks = [" ".join(service["healthcheck"]["test"]) for service in SERVICES.values()]
    assert [check for check in checks if re.search(r"-p\S*PASSWORD|--password", check)] == []


def test_variables_of_the_compose_file_are_explained() -> None:
    used = set(re.findall(r"(?<!\$)\$\{(\w+)", (ROOT / "docker-compose.yml").read_text()))
    given = set(re.findall(r"(?m)^(?:# )?(\w+)=", (ROOT / "deploy" / "docker" / "env.sample").read_text()))
    assert used == given


def test_the_image_is_not_roots_and_has_what_it_copies() -> None:
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.findall(r"(?m)^USER (\S+)$", final) == ["dm"]
    runtime = DOCKERFILE.partition(" AS runtime\n")[2].partition("\nFROM ")[0]
    assert "chown dm:dm" in runtime
    assert "--uid 10001" in runtime
    assert "RUN " not in final, "what needs root is done before"
    copied = [source for line in re.findall(r"(?m)^COPY (?!--from)(.*) \S+$", DOCKERFILE) for source in line.split()]
    assert [source for source in copied if not (ROOT / source).exists()] == []
    # Every program that a service starts or a healthcheck calls is installed.
    assert {"curl", "tini", "util-linux", "procps", "/opt/java", "/usr/local/bin/dm-health"} <= set(runtime.split())
    assert all(os.access(ROOT / "deploy" / "docker" / name, os.X_OK) for name in ("dm-health", "executor"))
    # Signals reach the program alone: it ends its children itself, in the right order.
    assert 'ENTRYPOINT ["tini", "--"]' in final
    assert "HEALTHCHECK " in final
    assert "org.opencontainers.image.version=" in final
    assert "/usr/share/dm/sbom.cdx.json" in final


def test_a_change_of_the_code_does_not_fetch_packages_again() -> None:
    dependencies = DOCKERFILE.partition(" AS dependencies\n")[2].partition("\nFROM ")[0]
    assert "pip --python /opt/dm/bin/python install" in dependencies
    assert [source for source in ("pkg", "dm_worker", "pyproject.toml") if f"COPY {source}" in dependencies] == []


def test_the_image_has_the_compiled_kernel() -> None:
    build = DOCKERFILE.partition(" AS project\n")[2].partition("\nFROM ")[0]
    copied = {word for line in build.splitlines() if line.startswith("COPY ") for word in line.split()[1:-1]}
    assert {"setup.py", "pyproject.toml", "pkg", "dm_master", "dm_worker", "dmctl"} <= copied
    links = [path.resolve() for source in copied for path in (ROOT / source).rglob("*") if path.is_symlink()]
    assert links
    assert {path.relative_to(ROOT).parts[0] for path in links} <= copied
    assert re.search(r"apt-get install .*\bgcc\b", build)
    # The build fails when it was not compiled, or is not part of what was installed.
    assert "DM_KERNEL=native" in build
