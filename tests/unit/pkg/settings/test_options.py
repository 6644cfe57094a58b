"""Hazard: a flag form of scripts fails, a flag loses against the file, or written TOML reads otherwise."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg.config.master import load_master_config
from pkg.config.worker import load_worker_config
from pkg.settings.options import to_toml

M = ["-master-addr", "127.0.0.1:8261"]


W = ["-worker-addr", "127.0.0.1:8262", "-join", ":8261"]


def _file(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return ["-config", str(path)]


@pytest.mark.parametrize("form", [["-L=debug"], ["--L", "debug"], ["-log-level", "debug"], ["--log-level=debug"]])
def test_every_go_form_of_a_flag_works(form: list[str]) -> None:
    assert load_master_config([*M, *form]).log_level == "debug"
    assert load_worker_config([*W, *form]).log_level == "debug"


def test_flags_beat_the_file(tmp_path: Path) -> None:
    args = _file(tmp_path, 'name = "file"\nmaster-addr = "10.0.0.1:1"\n')
    config = load_master_config([*args, "--name=flag"])
    assert (config.name, config.master_addr) == ("flag", "10.0.0.1:1")


def test_bool_flags_take_no_word() -> None:
    assert load_master_config([*M, "-openapi", "-name", "x"]).openapi
    assert not load_master_config([*M, "-openapi=false"]).openapi


@pytest.mark.parametrize("flag", ["-V", "--V", "-version"])
def test_version_needs_no_other_setting(flag: str) -> None:
    assert load_master_config([flag]).version
    assert load_worker_config([flag]).version


_toml = st.one_of(st.booleans(), st.integers(), st.text(st.characters(exclude_categories=["Cs"])))


@given(st.dictionaries(st.from_regex(r"[a-z-]+", fullmatch=True), _toml | st.lists(st.text('ab"\\\n\x7f'))))
def test_written_toml_reads_the_same(settings: dict[str, object]) -> None:
    assert tomllib.loads(to_toml(settings)) == settings
