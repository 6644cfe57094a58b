"""Operators and scripts write global flags in many ways and positions; each must mean the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmctl.failure import UsageError
from dmctl.options import parse_options, with_line
from pkg.errors import DMError


@pytest.mark.parametrize(
    "argv",
    [
        ["--master-addr", "h:1,:2", "query-status", "t"],
        ["--master-addr=h:1,:2", "query-status", "t"],
        ["-master-addr", "h:1,:2", "query-status", "t"],
        ["-master-addr=http://h:1,:2", "query-status", "t"],
        ["query-status", "--master-addr", "https://h:1/, :2", "t"],
        ["query-status", "t", "-master-addr=h:1,127.0.0.1:2"],
    ],
)
def test_master_address_in_every_spelling_and_location(argv: list[str]) -> None:
    options, rest = parse_options(argv, {})
    assert options.masters == ("h:1", "127.0.0.1:2")
    assert rest == ["query-status", "t"]


@pytest.mark.parametrize(
    "argv",
    [
        ["-s", "a", "-s", "b,c"],
        ["-s=a,b", "--source=c"],
        ["--source", "a", "-sb", "-s", "c"],
        ["-s", "a, b ,c"],
    ],
)
def test_sources_repeat_and_split(argv: list[str]) -> None:
    options, rest = parse_options([*argv[:2], "stop-task", *argv[2:]], {})
    assert options.sources == ("a", "b", "c")
    assert rest == ["stop-task"]


def test_tls_flags_are_not_taken_for_sources() -> None:
    options, rest = parse_options(["-ssl-ca", "ca", "-ssl-cert=cert", "--ssl-key", "key"], {})
    assert (options.security.ssl_ca, options.security.ssl_cert, options.security.ssl_key) == ("ca", "cert", "key")
    assert options.sources == ()
    assert rest == []


def test_flag_beats_file_beats_environment(tmp_path: Path) -> None:
    file = tmp_path / "dmctl.toml"
    file.write_text('master-addr = "file:1"\nrpc-timeout = "30s"\n')
    env = {"DM_MASTER_ADDR": "env:1"}
    assert parse_options([], env)[0].masters == ("env:1",)
    assert parse_options(["-config", str(file)], env)[0].masters == ("file:1",)
    options = parse_options([f"--config={file}", "--master-addr", "flag:1"], env)[0]
    assert options.masters == ("flag:1",)
    assert options.rpc_timeout == 30


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--rpc-timeout", "0s"], "greater than 0"),
        (["--rpc-timeout", "-1s"], "greater than 0"),
        (["--rpc-timeout", "soon"], "soon"),
        (["query-status", "-s"], "flag needs an argument: -s"),
        (["--master-addr"], "flag needs an argument"),
    ],
)
def test_bad_flags_are_refused(argv: list[str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse_options(argv, {})


@pytest.mark.parametrize("content", ["mastr-addr = 'x'\n", "not toml"])
def test_a_config_file_with_mistakes_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "dmctl.toml"
    file.write_text(content)
    with pytest.raises(DMError, match="20002"):
        parse_options(["--config", str(file)], {})


def test_an_interactive_lines_flags_hold_for_that_line() -> None:
    base, _ = parse_options(["--master-addr", "h:1", "--rpc-timeout", "7s", "-ssl-ca", "ca"], {})
    line, rest = with_line(base, ["query-status", "-s", "a"])
    assert (line.masters, line.rpc_timeout, line.security, line.sources) == (("h:1",), 7, base.security, ("a",))
    assert rest == ["query-status"]
    assert with_line(base, ["query-status"])[0].sources == ()


def test_after_two_dashes_nothing_is_a_flag() -> None:
    options, rest = parse_options(["encrypt", "--", "-s", "--version"], {})
    assert (options.sources, options.version) == ((), False)
    assert rest == ["encrypt", "--", "-s", "--version"]


@given(st.lists(st.text("abc-", min_size=1).filter(lambda word: not word.startswith("-"))))
def test_plain_arguments_pass_unchanged(words: list[str]) -> None:
    assert parse_options(words, {})[1] == words


def test_a_comparisons_file_is_not_taken_for_dmctls_settings(tmp_path: Path) -> None:
    file = tmp_path / "dmctl.toml"
    file.write_text('master-addr = "file:1"\n')
    options, rest = parse_options(["--config", str(file), "diff", "start", "--config", "shop.yaml", "-s", "a"], {})
    assert (options.masters, options.sources) == (("file:1",), ("a",))
    assert rest == ["diff", "start", "--config", "shop.yaml"]
    options, rest = parse_options(["diff", "status", "task", "-config", str(file)], {})
    assert (options.masters, rest) == (("file:1",), ["diff", "status", "task"])
    with pytest.raises(DMError, match=r"cannot use config file shop\.yaml"):
        parse_options(["start-task", "--config", "shop.yaml"], {})
