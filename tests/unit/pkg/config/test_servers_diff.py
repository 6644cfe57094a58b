"""Hazard: a comparison's file is misread, or a mistake in it is not named with its place."""

from __future__ import annotations

import pytest
import yaml

from pkg.config.effects.diff_keys import DIFF_EFFECTS
from pkg.config.servers_diff import load_servers_diff
from pkg.errors import DMError
from pkg.rules.model import RouteRule
from pkg.settings.connections import DBConfig

FILE = """\
name: shops
settle-time: 5s
tables: ["shop.*"]
chunk-rows: 1000
output-dir: /data/diff
case-sensitive: true
target-database: {host: t, port: 4000, user: reader, password: "secret t"}
mysql-instances:
- {source-id: b, from: {host: b, port: 3307}, route-rules: [r]}
- {source-id: a, from: {host: a, port: 3306, password: "secret a"}, block-allow-list: l, column-mapping-rules: []}
routes:
  r: {schema-pattern: "s_*", target-schema: shop}
block-allow-list:
  l: {do-dbs: [shop]}
"""


def test_each_upstream_has_its_server_and_its_rules() -> None:
    config = load_servers_diff(FILE)
    assert (config.name, config.settle_time, config.tables, config.chunk_rows, config.output_dir) == (
        "shops", 5.0, ("shop.*",), 1000, "/data/diff",
    )  # fmt: skip
    b, a = config.upstreams
    assert (b.source_id, b.from_, b.routes) == ("b", DBConfig("b", 3307), (RouteRule("s_*", "shop"),))
    assert (a.from_.password, a.to.password, a.block_allow_list.do_dbs) == ("secret a", "secret t", ("shop",))
    assert a.routes == ()
    assert a.case_sensitive
    assert config.warnings == ()


def test_no_table_is_left_out_as_one_of_a_tasks_own() -> None:
    one = load_servers_diff(FILE).upstreams[0]
    assert (one.meta_schema, one.online_ddl) == ("", False)


def test_passwords_are_not_in_its_text() -> None:
    assert "secret" not in repr(load_servers_diff(FILE))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("name: shops", "name: ''", r"diff\.yaml:1:7: the task has no name"),
        ("settle-time: 5s", "settle-time: soon", r"diff\.yaml:2:14: settle-time"),
        ("settle-time: 5s", "settle-time: 0s", r"diff\.yaml:2:14: settle-time is 0 or less"),
        ("{host: t, port: 4000,", "{host: t,", r"target-database\.port is missing"),
        ("target-database: {", "unknown: {", "unknown key 'unknown'"),
        (", from: {host: b, port: 3307}", "", r"diff\.yaml:9:3: from is missing"),
        ("[r]", "[q]", "names 'q', which routes does not have"),
        ("route-rules: [r]", "route-rules: []", "routes: no entry of mysql-instances names 'r'"),
        ("source-id: b", "source-id: a", "source-id 'a' is in two entries"),
        ("{host: b, port: 3307}", "{host: b, port: 3307, session: {sql_mode: ANSI_QUOTES}}", "ANSI_QUOTES"),
    ],
)
def test_a_mistake_is_named(before: str, after: str, message: str) -> None:
    assert before in FILE
    with pytest.raises(DMError, match=message):
        load_servers_diff(FILE.replace(before, after))


def test_a_key_without_an_effect_is_warned_of() -> None:
    text = FILE.replace("port: 3307}", "port: 3307, max-allowed-packet: 5}")
    assert any("max-allowed-packet of from has no effect" in one for one in load_servers_diff(text).warnings)


def test_the_page_names_each_key_of_the_file() -> None:
    known = {one.key.partition(".")[0].removesuffix("[]") for one in DIFF_EFFECTS}
    assert set(yaml.safe_load(FILE)) <= known
