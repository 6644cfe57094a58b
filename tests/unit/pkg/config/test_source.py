"""Hazards: a source stored differently than written, a feature that is requested and silently left out."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pkg.config.model import CheckerConfig, PurgeConfig
from pkg.config.source import load_source, source_id_of, source_to_yaml
from pkg.errors import DMError
from pkg.rules.model import BinlogFilterRule

SOURCE = "source-id: s1\nfrom: {host: h, port: 3306, user: u, password: hunter2}\n"


def test_smallest_source() -> None:
    config = load_source(SOURCE)
    assert (config.source_id, config.from_.host, config.from_.port, config.from_.user) == ("s1", "h", 3306, "u")
    assert (config.purge, config.checker) == (PurgeConfig(), CheckerConfig())
    assert (config.flavor, config.server_id, config.enable_gtid) == ("", 0, False)


@pytest.mark.parametrize(
    ("extra", "code", "place"),
    [
        ("flavour: mysql\n", 20003, "s.yaml:3:1: unknown key 'flavour'"),
        ("flavor: oracle\n", 11010, "s.yaml:3:9"),
        ("server-id: 4294967296\n", 20003, "at most"),
        ("server-id: x\n", 20003, "a whole number"),
        ("relay-binlog-name: mysql-bin\n", 40007, "s.yaml:3:20"),
        ("checker: {backoff-max: 1s, backoff-min: 2s}\n", 20043, "s.yaml:3:24"),
        ("checker: {backoff-max: 5}\n", 20003, "a duration"),
        ("checker: {backoff-factor: 0.5}\n", 20003, "at least 1"),
        ("checker: {check-interval: 0s}\n", 20003, "positive"),
        ("filters: [{schema-pattern: a, action: Ignore}]\n", 20037, "s.yaml:3:11: neither events"),
        ("filters: [{schema-pattern: a, events: [insert, inset], action: Ignore}]\n", 20037, "s.yaml:3:48"),
        ("filters: {}\n", 20003, "must be a list"),
    ],
)
def test_every_refusal_has_code_and_location(extra: str, code: int, place: str) -> None:
    with pytest.raises(DMError) as caught:
        load_source(SOURCE + extra, "s.yaml")
    assert caught.value.code == code
    assert place in caught.value.message
    assert caught.value.workaround
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("source-id: s1\n", "", 40005),
        ("source-id: s1", "source-id: " + "s" * 33, 40006),
        ("from: {host: h, port: 3306, user: u, password: hunter2}\n", "", 20003),
        ("host: h, ", "", 20003),
        ("port: 3306, ", "", 20003),
    ],
)
def test_what_must_be_there(old: str, new: str, code: int) -> None:
    with pytest.raises(DMError) as caught:
        load_source(SOURCE.replace(old, new))
    assert caught.value.code == code


@pytest.mark.parametrize("name", ["a/b", "/", "..", ".", "../s", "a\\b", "a\0b", "a\nb", "a\x7f", " a", "a "])
@pytest.mark.parametrize("read", [load_source, source_id_of])
def test_a_source_id_that_cannot_name_a_folder_is_refused(read: Callable[[str, str], object], name: str) -> None:
    with pytest.raises(DMError, match=r"s\.yaml:1:12: source-id .* cannot name tables and folders") as caught:
        read(SOURCE.replace("source-id: s1", f"source-id: {json.dumps(name)}"), "s.yaml")
    assert caught.value.code == 20003
    assert caught.value.workaround


@pytest.mark.parametrize("name", ["a.b", "..a", "mysql-replica-01", "a b", "größe", "10.0.0.1:3306", "~"])
def test_a_source_id_has_any_other_characters(name: str) -> None:
    assert source_id_of(SOURCE.replace("source-id: s1", f"source-id: {json.dumps(name)}"), "s.yaml") == name


def test_keys_without_effect_are_reported() -> None:
    warnings: list[str] = []
    load_source(SOURCE + "auto-fix-gtid: true\nmeta-dir: x\ncharset: y\ntracer: {a: b}\nrelay-dir: r\n", "s", warnings)
    assert len(warnings) == 5


def test_shown_source_hides_the_password_and_loads_again() -> None:
    config = load_source(
        SOURCE.replace(
            "port: 3306",
            "port: 3306, session: {a: 1}, security: {ssl-ca: /ca, ssl-key-bytes: eHl6, cert-allowed-cn: [a, b]}",
        )
        + "flavor: mariadb\nserver-id: 7\nchecker: {backoff-max: 90s, backoff-factor: 3}\npurge: {expires: 2}\n"
        + "filters: [{schema-pattern: a, table-pattern: b, events: [insert], sql-pattern: [x], action: Ignore}]\n"
    )
    assert config.filters == (BinlogFilterRule("a", "b", ("insert",), ("x",), "Ignore"),)
    shown = source_to_yaml(config)
    assert "hunter2" not in shown
    assert "xyz" not in shown
    assert "password: '******'" in shown
    assert load_source(source_to_yaml(config, redact=False)) == config
