# `make demo` and `make test` set up everything they need on a fresh Debian or Ubuntu machine.
VENV := .venv/bin
TESTS ?= tests
# Test processes side by side: more than cores, because most tests wait, and 4 GB of memory for each; the harness has ports for eight. The tests of a
# file stay together, they share its servers.
JOBS ?= $(shell awk -v cores=$$(nproc) '/MemTotal/ { jobs = int($$2 / 4e6); if (jobs > cores * 2.5) jobs = int(cores * 2.5); \
  if (jobs > 8) jobs = 8; print (jobs < 1 ? 1 : jobs) }' /proc/meminfo)
# Tests start hundreds of Python processes: without bytecode, each compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
SERVER_TESTS := mysql_versions newest_mysql json_documents mariadb_11_8 mixed_servers

.PHONY: help setup kernel demo check test test-long test-servers test-containers test-kubernetes pin-images test-tidb test-deploy test-monitoring dashboards dashboard-pictures wheel lint fuzz fuzz-proof bench proto configuration-page openapi-models version-before clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: ## install system packages and .venv
	@deploy/setup.sh

kernel: ## build the compiled parts in place (PY=interpreter; setup does it too)
	$(or $(PY),$(VENV)/python) setup.py -q build_ext --inplace

demo: setup ## watch a migration: two sharded upstreams become one table (KEEP=1 leaves the cluster up, TARGET=tidb)
	@$(VENV)/python -m deploy.demo $(if $(KEEP),--keep) $(if $(TARGET),--target $(TARGET))

test: ## unit, integration, end-to-end and fault tests (TESTS=path for some, JOBS=0 for one process)
	@deploy/setup.sh test
	$(VENV)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=15 $(TESTS)

test-long: ## `make test` with every full sweep: all codes of all charsets, every kill at every step (TESTS, JOBS)
	@deploy/setup.sh test
	DM_TEST_LONG=1 $(VENV)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=15 $(TESTS)

check: lint ## lint and the unit tests with fewer examples, before each commit
	DM_TEST_QUICK=1 $(VENV)/python -m pytest -q -n 2 -p no:schemathesis -p no:anyio tests/unit

test-tidb: ## all tests that have a target, into a real TiDB, which is built from its Go module first (needs Go; TESTS, JOBS)
	@deploy/setup.sh test
	@$(VENV)/python -m deploy.local.tidb
	DM_TEST_TARGET=tidb $(VENV)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=15 $(TESTS)

test-servers: ## the tests that take one server after the other, on every version there is (TESTS=path for others)
	@deploy/setup.sh test
	DM_TEST_SERVERS=all $(VENV)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=15 \
	  $(if $(filter-out tests,$(TESTS)),$(TESTS),$(addprefix tests/integration/test_,$(addsuffix .py,$(SERVER_TESTS))))

test-deploy: ## manifests, units, workflows and wheels, with kustomize, kubeconform, systemd-analyze, actionlint and pip (needs Go)
	@deploy/setup.sh test
	DM_TEST_DEPLOY=1 $(VENV)/python -m pytest --durations=5 tests/deploy

test-monitoring: ## alerts and dashboards, by promtool and against a running cluster (fetches Debian's Prometheus)
	@deploy/setup.sh test
	DM_TEST_MONITORING=1 $(VENV)/python -m pytest --durations=5 tests/monitoring

test-containers: ## image and docker-compose.yml on a Docker engine, which is started if none answers (root); failures, upgrade, Spark
	@deploy/setup.sh containers
	DM_TEST_CONTAINERS=1 $(VENV)/python -m pytest -s --durations=0 tests/containers

test-kubernetes: ## deploy/kubernetes on a real Kubernetes of one node, which is built from its Go modules first (root, Go)
	@deploy/setup.sh kubernetes
	DM_TEST_KUBERNETES=1 $(VENV)/python -m pytest -s --durations=0 tests/kubernetes

pin-images: ## write the digests of the base images behind their tags (needs docker with buildx, and the registries)
	@$(VENV)/python -m deploy.docker.pin_images

dashboards: ## write Grafana's dashboards from deploy/monitoring/dashboards.py
	$(VENV)/python -m deploy.monitoring.dashboards

dashboard-pictures: dashboards ## pictures of the dashboards for docs/, of a cluster under load (fetches npm's packages, Prometheus; installs Chromium)
	@deploy/setup.sh pictures
	$(VENV)/python -m tests.monitoring.pictures

lint: setup ## style, types, the layers of packages, and code that nothing uses
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy pkg dm_master dm_worker dmctl deploy tests
	$(VENV)/lint-imports --no-logo
	$(VENV)/vulture
	@git ls-files '*.py' '*.c' ':!*/pb/*' | xargs wc -l | awk '$$1 > 600 && $$2 != "total" { print "warning: " $$2 " has " $$1 " lines" }'

wheel: ## wheels and sources for pip in dist/, the same bytes for the same commit (PYTHONS="python3.11 python3.12")
	@deploy/wheel.sh

fuzz: ## search combinations for silent differences (SECONDS, SEED, PAIR=mariadb:mysql-8.0, REPORT=page.md, CLUSTERS=20)
	@deploy/setup.sh test
	$(VENV)/python -m tests.fuzz $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(PAIR),--pair $(PAIR)) $(if $(REPORT),--report $(REPORT)) $(if $(CLUSTERS),--clusters $(CLUSTERS))

fuzz-proof: ## put the known holes back and show that the search finds each (HOLES="name name", SECONDS for all)
	@deploy/setup.sh test
	$(VENV)/python -m tests.fuzz.proof $(if $(SECONDS),--seconds $(SECONDS)) $(HOLES)

bench: ## measure each performance target beside native tools (BENCH="--only oltp,copy --runs 1")
	@deploy/setup.sh bench
	$(VENV)/python -m tests.bench $(BENCH)

proto: setup ## regenerate the committed gRPC stubs
	PYTHON=$(VENV)/python proto/gen.sh

configuration-page: ## write docs/configuration.md and configs/task-full.yaml from the declarations of the keys
	$(VENV)/python -m pkg.config.effects.page > docs/configuration.md
	$(VENV)/python -m pkg.config.effects.sample > configs/task-full.yaml

openapi-models: ## write dm_master/openapi/models.py from the contract, dm.yaml
	$(VENV)/python -m deploy.openapi_models
	$(VENV)/ruff format -q dm_master/openapi/models.py

version-before: ## keep REF's code as the version that the upgrade test starts from (at each release)
	git archive $(REF) dm_master dm_worker dmctl pkg ':!pkg/native/*.[ch]' | xz -9e > tests/e2e/data/version-before.tar.xz

clean: ## remove what setup and runs left in the checkout
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist *.egg-info pkg/native/*.so
