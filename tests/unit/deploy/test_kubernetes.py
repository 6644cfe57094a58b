"""Hazards: manifests that name flags the programs lack, ports or paths that nobody serves, another image than is built,
or pods that run with rights. `make test-deploy` checks the whole of them against Kubernetes' schemas."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dm_worker.engine.security import missing_protection, properties
from pkg.config.master import MasterConfig, load_master_config
from pkg.config.worker import WorkerConfig, load_worker_config
from pkg.process.metrics import Metrics
from pkg.rpc.server import HttpRoutes
from tests.unit.asgi import ask

ROOT = Path(__file__).resolve().parents[3]
KUBERNETES = ROOT / "deploy" / "kubernetes"
PROGRAMS = ("dm-master", "dm-worker")
FILES = sorted(KUBERNETES.rglob("*.yaml"))
#: What the variables of a pod stand for in the first pod.
VARIABLES = {"POD_NAMESPACE": "dm", "URL_SCHEME": "http"}


def documents(path: Path) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load_all(path.read_text())


BASE = [document for path in sorted((KUBERNETES / "base").glob("*.yaml")) for document in documents(path)]
SPARK = list(documents(KUBERNETES / "components" / "spark-standalone" / "spark.yaml"))


def of_kind(kind: str, name: str) -> dict[str, Any]:
    (found,) = (one for one in BASE if (one["kind"], one.get("metadata", {}).get("name")) == (kind, name))
    return found


def container(program: str) -> dict[str, Any]:
    (one,) = of_kind("StatefulSet", program)["spec"]["template"]["spec"]["containers"]
    return dict(one)


def arguments(program: str, pod: int = 0) -> list[str]:
    """A pod's flags, with the mounted file as it is in the checkout."""
    variables = {**VARIABLES, "POD_NAME": f"{program}-{pod}"}
    flags = [re.sub(r"\$\((\w+)\)", lambda m: variables[m[1]], flag) for flag in container(program)["args"]]
    return [flag.replace("/etc/dm/config", str(KUBERNETES / "base" / "config")) for flag in flags]


def masters() -> list[MasterConfig]:
    replicas = of_kind("StatefulSet", "dm-master")["spec"]["replicas"]
    return [load_master_config(arguments("dm-master", pod)) for pod in range(replicas)]


def worker() -> WorkerConfig:
    return load_worker_config(arguments("dm-worker"))


def pod_templates() -> list[tuple[str, dict[str, Any]]]:
    workloads = [one for one in [*BASE, *SPARK] if one["kind"] in ("StatefulSet", "Deployment")]
    return [(one["metadata"]["name"], one["spec"]["template"]["spec"]) for one in workloads]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(KUBERNETES)))
def test_files_are_yaml_with_kinds(path: Path) -> None:
    assert all(document["kind"] and document["apiVersion"] for document in documents(path))


@pytest.mark.parametrize("path", sorted(KUBERNETES.rglob("kustomization.yaml")), ids=str)
def test_kustomizations_name_files_that_exist_and_all_of_them(path: Path) -> None:
    (one,) = documents(path)
    generated = [name for maker in one.get("configMapGenerator", []) for name in maker["files"]]
    patches = [patch["path"] for patch in one.get("patches", []) if "path" in patch]
    named = [*one.get("resources", []), *one.get("components", []), *generated, *patches]
    assert [name for name in named if not (path.parent / name).exists()] == []
    there = {
        str(file.relative_to(path.parent)) for suffix in ("yaml", "toml") for file in path.parent.rglob(f"*.{suffix}")
    }
    assert there - {"kustomization.yaml"} <= set(named)


def test_masters_make_one_cluster_of_etcd_that_workers_join() -> None:
    members = dict(part.split("=") for part in masters()[0].initial_cluster.split(","))
    assert members == {master.name: master.advertise_peer_urls for master in masters()}
    assert list(worker().master_addresses) == [master.advertise_addr for master in masters()]
    # A worker asks masters by these names over HTTP, too.
    assert [master.advertise_addr.rpartition(":")[0] in master.hosts for master in masters()] == [True] * len(masters())


def test_advertised_names_are_those_of_the_headless_services() -> None:
    for program, config in (("dm-master", masters()[0]), ("dm-worker", worker())):
        service = of_kind("StatefulSet", program)["spec"]["serviceName"]
        assert config.advertise_addr.rpartition(":")[0] == f"{program}-0.{service}.dm.svc"
        spec = of_kind("Service", service)["spec"]
        assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
        labels = of_kind("StatefulSet", program)["spec"]["template"]["metadata"]["labels"]
        assert spec["selector"].items() <= labels.items()


def test_ports_are_the_programs() -> None:
    ports = {port["name"]: port["containerPort"] for port in container("dm-master")["ports"]}
    master = masters()[0]
    urls = (master.peer_urls, master.etcd_client_urls)
    assert [ports["client"], ports["etcd-peer"], ports["etcd-client"]] == [
        master.listen[1],
        *(int(url.rpartition(":")[2]) for url in urls),
    ]
    assert [port["containerPort"] for port in container("dm-worker")["ports"]] == [worker().listen[1]]
    for program, service in (("dm-master", "dm-master-peer"), ("dm-worker", "dm-worker")):
        served = {port["name"]: port["port"] for port in of_kind("Service", service)["spec"]["ports"]}
        assert served == {port["name"]: port["containerPort"] for port in container(program)["ports"]}


@pytest.mark.parametrize("program", PROGRAMS)
def test_policies_open_ports_that_exist(program: str) -> None:
    rules = of_kind("NetworkPolicy", program)["spec"]["ingress"]
    assert {port["port"] for rule in rules for port in rule["ports"]} <= {
        port["name"] for port in container(program)["ports"]
    }
    assert all(rule["from"] for rule in rules), "a rule without `from` lets everybody in"


@pytest.mark.parametrize("program", PROGRAMS)
def test_probes_ask_paths_that_are_served(program: str) -> None:
    routes = HttpRoutes(status=str, metrics=Metrics(), ready=lambda: False)
    asked = {
        name: container(program)[name]["httpGet"]["path"]
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    answers = {name: ask(routes.app, "GET", path).status for name, path in asked.items()}
    # A process that waits for its cluster lives, and is not ready.
    assert answers == {"startupProbe": 200, "livenessProbe": 200, "readinessProbe": 503}
    tls = next(documents(KUBERNETES / "components" / "tls" / f"{program.removeprefix('dm-')}.yaml"))
    (own,) = tls["spec"]["template"]["spec"]["containers"]
    for name, path in asked.items():
        port = container(program)["ports"][0]["containerPort"]
        assert own[name]["exec"]["command"][-1] == f"https://localhost:{port}{path}"
        assert own[name]["exec"]["command"][0] in (ROOT / "Dockerfile").read_text()


def test_the_image_is_the_one_that_compose_builds() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    built = {service["image"].partition(":")[0] for service in services.values() if "build" in service}
    assert {one["image"] for _, pod in pod_templates() for one in pod["containers"]} == built


@pytest.mark.parametrize(("name", "pod"), pod_templates(), ids=lambda value: value if isinstance(value, str) else "")
def test_pods_run_without_rights_and_within_limits(name: str, pod: dict[str, Any]) -> None:
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert f"--uid {pod['securityContext']['runAsUser']}" in (ROOT / "Dockerfile").read_text()
    for one in pod["containers"]:
        rights = one["securityContext"]
        assert (rights["readOnlyRootFilesystem"], rights["allowPrivilegeEscalation"]) == (True, False)
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert {"cpu", "memory"} <= one["resources"]["limits"].keys()
        assert "/tmp" in [mount["mountPath"] for mount in one["volumeMounts"]]
        assert {"name": "TMPDIR", "value": "/tmp"} in one["env"]
    if name in PROGRAMS:
        # The programs take up to 30 seconds to end.
        assert pod["terminationGracePeriodSeconds"] > 30


def test_sources_have_a_spare_worker_and_budgets() -> None:
    for program in PROGRAMS:
        assert of_kind("PodDisruptionBudget", program)["spec"]["maxUnavailable"] == 1
        assert of_kind("StatefulSet", program)["spec"]["replicas"] == 3


def test_the_component_of_spark_is_a_cluster_that_workers_accept() -> None:
    folder = KUBERNETES / "components" / "spark-standalone"
    config = load_worker_config([*arguments("dm-worker")[1:], "--config", str(folder / "dm-worker.toml")])
    (service,) = (one for one in SPARK if one["kind"] == "Service")
    assert config.spark.master == f"spark://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    (patch,) = documents(folder / "worker.yaml")
    (own,) = patch["spec"]["template"]["spec"]["containers"]
    fixed = [config.spark.conf[key] for key in ("spark.driver.port", "spark.driver.blockManager.port")]
    assert [str(port["containerPort"]) for port in own["ports"]] == fixed
    # The program is where the image has it.
    commands = [
        one["spec"]["template"]["spec"]["containers"][0]["command"] for one in SPARK if one["kind"] == "Deployment"
    ]
    compose = (ROOT / "docker-compose.yml").read_text()
    assert [command for command in commands if f'"{command[2]}", "{command[3]}"' not in compose] == []
    sample = (folder / "spark-defaults.sample").read_text()
    assert {"spark.authenticate", "spark.network.crypto.enabled", "spark.authenticate.secret"} <= set(sample.split())


def executor_files() -> tuple[Path, WorkerConfig, dict[str, Any]]:
    """The component for executors as pods: its folder, the worker's configuration and the executors' pod."""
    folder = KUBERNETES / "components" / "spark-kubernetes"
    config = load_worker_config([*arguments("dm-worker")[1:], "--config", str(folder / "dm-worker.toml")])
    (pod,) = documents(folder / "executor.yaml")
    return folder, config, pod


def test_executors_as_pods_are_a_cluster_that_workers_accept() -> None:
    folder, config, pod = executor_files()
    conf = config.spark.conf
    assert missing_protection(config.spark.master, conf) == []
    (patch,) = documents(folder / "worker.yaml")
    (own,) = patch["spec"]["template"]["spec"]["containers"]
    fixed = [conf[key] for key in ("spark.driver.port", "spark.driver.blockManager.port")]
    assert [str(port["containerPort"]) for port in own["ports"]] == fixed
    # The template is where the worker finds it, and Spark fills in the container that is meant.
    mounts = {mount["name"]: mount["mountPath"] for mount in own["volumeMounts"]}
    template = conf["spark.kubernetes.executor.podTemplateFile"]
    assert template == f"{mounts['spark-pods']}/executor.yaml"
    (container,) = pod["spec"]["containers"]
    assert container["name"] == conf["spark.kubernetes.executor.podTemplateContainerName"]
    # Spark starts the image with the argument `executor`.
    assert "deploy/docker/executor" in (ROOT / "Dockerfile").read_text()
    # Worker and executors see the dumps under one path.
    assert {"name": "dumps", "mountPath": mounts["dumps"]} in container["volumeMounts"]


def test_executors_run_without_rights() -> None:
    _, config, pod = executor_files()
    spec = pod["spec"]
    (one,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"] == pod_templates()[0][1]["securityContext"]
    assert one["securityContext"] == container("dm-worker")["securityContext"]
    # Spark unpacks the project's code in the working folder, and the root file system is read-only.
    assert one["workingDir"] in [mount["mountPath"] for mount in one["volumeMounts"]]
    # Another account than the worker's, which may create pods.
    account = config.spark.conf["spark.kubernetes.authenticate.executor.serviceAccountName"]
    assert account == of_kind("StatefulSet", "dm-worker")["spec"]["template"]["spec"]["serviceAccountName"]


def test_a_driver_names_its_pod_and_image() -> None:
    folder, _, _ = executor_files()
    script = runpy.run_path(str(folder / "pod_settings.py"))
    containers = [{"name": "sidecar", "image": "other"}, {"name": "dm-worker", "image": "registry/dm:1"}]
    pod = {"metadata": {"namespace": "mine", "name": "dm-worker-2"}, "spec": {"containers": containers}}
    assert properties(script["settings"](pod)) == {
        "spark.kubernetes.namespace": "mine",
        "spark.kubernetes.driver.pod.name": "dm-worker-2",
        "spark.kubernetes.container.image": "registry/dm:1",
    }


def test_no_secret_is_in_the_manifests() -> None:
    kinds = [document["kind"] for path in FILES for document in documents(path)]
    assert "Secret" not in kinds
    generators = [one for path in KUBERNETES.rglob("kustomization.yaml") for one in documents(path)]
    assert [one for one in generators if "secretGenerator" in one] == []
