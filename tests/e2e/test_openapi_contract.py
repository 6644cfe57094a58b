"""Hazard: a request that nobody thought of makes a master fail, or an answer differs from the served contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode, openapi
from schemathesis.schemas import BaseSchema

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import up
from deploy.local.targets import new_target
from dm_master.openapi.contract import Operation, contract
from tests.harness.openapi import CONTRACT_CHECKS, ApiClient, api_source, api_task
from tests.harness.targets import TARGET
from tests.sweeps import LONG

#: Of valid requests, and of invalid ones, for each operation.
EXAMPLES = 100 if LONG else 1
CHAINS = 50 if LONG else 2
#: What there is in the cluster, by the name of the path's parameter.
KNOWN = {"source-name": "s1", "task-name": "t1", "schema-name": "shop", "table-name": "a", "worker-name": "worker1"}


@dataclass(frozen=True)
class Api:
    """A cluster's API: a plain client, and the contract as it is served."""

    client: ApiClient
    served: BaseSchema
    upstream: SQLServer
    target: SQLServer

    def restore(self) -> None:
        """The source and the task of :data:`KNOWN` are there, whatever the examples before did."""
        if "s1" not in [one["source_name"] for one in self.client.ok("GET", "sources")["data"]]:
            self.client.ok("POST", "sources", {"source": api_source(self.upstream, "s1")})
        if "t1" not in [one["name"] for one in self.client.ok("GET", "tasks")["data"]]:
            self.client.ok("POST", "tasks", {"task": api_task(self.target, "t1", ["s1"], "shop")})

    def make_meaningful(self, case: Case[Any]) -> None:
        """Half of the valid requests name what there is and give servers that answer: else, all of them are refused."""
        if case.meta is None or case.meta.generation.mode != GenerationMode.POSITIVE:
            return
        for name, value in case.path_parameters.items():
            if len(str(value)) % 2 and name in KNOWN:
                case.path_parameters[name] = KNOWN[name]
        body: Any = case.body
        if not isinstance(body, dict):
            return
        for part, named, address, server in (
            ("source", "source_name", None, self.upstream),
            ("task", "name", "target_config", self.target),
        ):
            found = body.get(part)
            if isinstance(found, dict):
                found[named] = case.path_parameters.get(f"{part}-name", found[named])
                where = found[address] if address else found
                where |= {"host": "127.0.0.1"}
                if where["port"] % 2:
                    where |= {"port": server.port, "user": "root", "password": ""}
                    where.pop("security", None)


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    upstream, target = MariaDBServer(gtid=True), new_target(TARGET)
    with up(upstream, target), Cluster(1, master_extra="openapi = true") as cluster:
        upstream.execute("CREATE DATABASE shop", "CREATE TABLE shop.a (id INT PRIMARY KEY)")
        port = cluster.master.port
        yield Api(ApiClient(port), openapi.from_url(f"http://127.0.0.1:{port}/api/v1/dm.json"), upstream, target)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["valid", "invalid"])
@pytest.mark.parametrize("operation", contract().operations, ids=lambda one: one.id)
def test_each_answer_is_as_the_contract_says(api: Api, operation: Operation, mode: GenerationMode) -> None:
    served = api.served["/" + "/".join(operation.segments)][operation.method]
    if mode == GenerationMode.NEGATIVE and not (operation.parameters or operation.body):
        return
    api.restore()

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(case=served.as_strategy(generation_mode=mode))
    def ask(case: Case[Any]) -> None:
        api.make_meaningful(case)
        case.call_and_validate(checks=CONTRACT_CHECKS, timeout=60)

    ask()


def test_chains_of_requests(api: Api) -> None:
    """As the links of the contract say: what an answer names is asked, changed and deleted."""
    machine: Any = api.served.as_state_machine()

    class Chain(machine):  # type: ignore[misc]
        def setup(self) -> None:
            api.restore()

        def before_call(self, case: Case[Any]) -> None:
            api.make_meaningful(case)

        def validate_response(
            self, response: Any, case: Case[Any], additional_checks: Any = None, **kwargs: Any
        ) -> None:
            case.validate_response(response, checks=CONTRACT_CHECKS)

    Chain.run(settings=settings(max_examples=CHAINS, stateful_step_count=6, suppress_health_check=list(HealthCheck)))
