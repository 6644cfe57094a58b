"""Hazard: etcd's password is shown, or a file that has none is noticed only when etcd refuses it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pkg.config.master import MasterConfig, load_master_config
from pkg.config.worker import WorkerConfig, load_worker_config
from pkg.errors import DMError

PASSWORD = "hush \"'$(x)"
MASTER = ["-master-addr", "127.0.0.1:8261"]
WORKER = ["-worker-addr", "127.0.0.1:8262", "-join", ":8261"]
Load = Callable[[list[str]], MasterConfig | WorkerConfig]
PROGRAMS = pytest.mark.parametrize(
    ("load", "argv", "code"), [(load_master_config, MASTER, 38037), (load_worker_config, WORKER, 40003)]
)


@PROGRAMS
def test_the_password_is_in_no_text(load: Load, argv: list[str], code: int, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    config = load([*argv, "-etcd-username", "root", "-etcd-password-path", str(file)])
    assert config.etcd_user is not None
    assert config.etcd_user.password() == PASSWORD
    assert str(file) in config.to_toml()
    for text in (config.to_toml(), repr(config), repr(config.etcd_user)):
        assert "hush" not in text
    file.write_text("renewed")
    assert config.etcd_user.password() == "renewed", "a new password counts without a restart"
    assert load(argv).etcd_user is None


@PROGRAMS
@pytest.mark.parametrize(("key", "missing"), [("username", "password-path"), ("password-path", "username")])
def test_one_without_the_other_is_refused(load: Load, argv: list[str], code: int, key: str, missing: str) -> None:
    with pytest.raises(DMError) as caught:
        load([*argv, f"-etcd-{key}", "x"])
    assert caught.value.code == code
    assert f"etcd-{missing}" in caught.value.workaround


@PROGRAMS
@pytest.mark.parametrize("content", [None, b"", b"\n", b"hush\nhush\n", b"\xff\xfehush"])
def test_a_file_without_a_password_is_refused(
    load: Load, argv: list[str], code: int, content: bytes | None, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DMError) as caught:
        load([*argv, "-etcd-username", "root", "-etcd-password-path", str(file)])
    assert caught.value.code == 20018
    assert str(file) in caught.value.message
    assert "hush" not in str(caught.value)


def test_the_embedded_etcd_has_one_user(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    dm = [*MASTER, "-etcd-username", "dm", "-etcd-password-path", str(file)]
    with pytest.raises(DMError) as caught:
        load_master_config(dm)
    assert caught.value.code == 38037
    assert '"root"' in caught.value.workaround
    assert load_master_config([*dm, "-etcd-endpoints", "http://10.0.0.1:2379"]).etcd_username == "dm"
