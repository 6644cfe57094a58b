"""Hazards: a file that DM's `config export` wrote is refused, or means something else here; an export lies open."""

from __future__ import annotations

import base64

import pytest

from pkg.config.source import load_source, source_to_yaml
from pkg.config.task import load_task, task_to_yaml
from pkg.settings import encrypt

#: DM's built-in key before 8.0, and what its documents show for `encrypt 123456`.
BUILT_IN = bytes.fromhex("a529b7665997f043a30ac8fadcb51d6aa032c226ab5b7750530b12b8c1a16a48")
SEALED = "VjX8cEeTX+qcvZ3bPaO4h0C80pe/1aU="

SOURCE = f"""\
enable: true
enable-gtid: true
relay-dir: relay-dir
flavor: mysql
enable-relay: true
relay-binlog-name: mysql-bin.000002
source-id: mysql-replica-01
from:
  host: 10.0.0.1
  port: 3306
  user: root
  password: {SEALED}
purge:
  interval: 3600
  expires: 0
  remain-space: 15
checker:
  check-enable: true
  backoff-rollback: 5m0s
  backoff-max: 5m0s
  check-interval: 5s
  backoff-min: 1s
  backoff-jitter: true
  backoff-factor: 2
server-id: 429595182
filters: []
case-sensitive: false
"""

TASK = f"""\
name: task_single
task-mode: all
is-sharding: false
shard-mode: ""
ignore-checking-items: []
meta-schema: dm_meta
enable-heartbeat: false
heartbeat-update-interval: 1
heartbeat-report-interval: 10
timezone: ""
case-sensitive: false
target-database:
  host: 10.0.0.9
  port: 4000
  user: root
  password: {SEALED}
  max-allowed-packet: null
  session: {{}}
  security: null
online-ddl-scheme: ""
mysql-instances:
- source-id: mysql-replica-01
  meta: null
  filter-rules:
  - filter-01
  column-mapping-rules: []
  route-rules:
  - route-01
  expression-filters: []
  black-white-list: ""
  block-allow-list: balist-01
  mydumper-config-name: dump-01
  mydumper: null
  mydumper-thread: 0
  loader-config-name: load-01
  loader: null
  loader-thread: 0
  syncer-config-name: sync-01
  syncer: null
  syncer-thread: 0
online-ddl: true
shadow-table-rules: []
trash-table-rules: []
routes:
  route-01:
    schema-pattern: app
    table-pattern: ""
    target-schema: app_all
    target-table: ""
filters:
  filter-01:
    schema-pattern: app
    table-pattern: t*
    events:
    - truncate table
    sql-pattern: []
    action: Ignore
column-mappings: {{}}
black-white-list: {{}}
block-allow-list:
  balist-01:
    do-tables: []
    do-dbs:
    - app
    ignore-tables: []
    ignore-dbs: []
mydumpers:
  dump-01:
    mydumper-path: ./bin/mydumper
    threads: 4
    chunk-filesize: "64"
    statement-size: 0
    rows: 0
    where: ""
    skip-tz-utc: true
    extra-args: ""
loaders:
  load-01:
    pool-size: 16
    dir: ./dumped_data
syncers:
  sync-01:
    meta-file: ""
    worker-count: 16
    batch: 100
    queue-size: 1024
    checkpoint-flush-interval: 30
    max-retry: 0
    auto-fix-gtid: false
    enable-gtid: false
    disable-detect: false
    safe-mode: false
    enable-ansi-quotes: true
clean-dump-file: true
ansi-quotes: false
remove-meta: false
"""


@pytest.fixture(autouse=True)
def _built_in_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encrypt._Keyring, "key", BUILT_IN)


def test_the_files_of_dm_mean_the_same_here() -> None:
    source = load_source(SOURCE)
    assert (source.source_id, source.enable_gtid, source.enable_relay) == ("mysql-replica-01", True, True)
    assert (source.from_.password, source.server_id, source.relay_binlog_name) == (
        "123456",
        429595182,
        "mysql-bin.000002",
    )
    task = load_task(TASK)
    assert (task.name, task.task_mode, task.target.password, task.online_ddl) == ("task_single", "all", "123456", True)
    (instance,) = task.instances
    assert [rule.target_schema for rule in instance.routes] == ["app_all"]
    assert instance.syncer.worker_count == 16


def test_what_is_exported_has_the_password_as_ciphertext_and_means_the_same() -> None:
    source = load_source(SOURCE)
    text = source_to_yaml(source, password=encrypt.encrypt("123456"))
    assert "123456" not in text
    assert load_source(text) == source
    exported = task_to_yaml(TASK, password=encrypt.encrypt("123456"))
    assert SEALED not in exported
    assert load_task(exported).target == load_task(TASK).target
    assert "******" in task_to_yaml(TASK)


def test_a_ciphertext_differs_each_time_and_has_dms_form() -> None:
    one, other = encrypt.encrypt("123456"), encrypt.encrypt("123456")
    assert one != other
    assert base64.b64decode(one)[16:17] == b"@"
