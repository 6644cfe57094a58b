"""Hazard: with passwords in etcd, a watch, lease or request ends with its token; or a wrong password is not named."""

from __future__ import annotations

import base64
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.process import wait_until
from pkg.errors import DMError
from pkg.etcd import EtcdClient, LeaseKeeper, PrefixMirror, Put, exists
from pkg.settings.etcd_user import EtcdUser
from tests.harness.etcd import EtcdServer

#: Seconds that a token lives unused. etcd looks for old ones once in a second.
TOKEN_TTL = 1
SECRET = "hush \"'$(x)"


@pytest.fixture
def etcd() -> Iterator[EtcdServer]:
    server = EtcdServer([f"--auth-token-ttl={TOKEN_TTL}"])
    server.start()
    yield server
    server.cleanup()


@pytest.fixture
def root(tmp_path: Path) -> EtcdUser:
    return _user(tmp_path, "root", SECRET)


def _user(folder: Path, name: str, password: str) -> EtcdUser:
    file = folder / f"{name}-{len(list(folder.iterdir()))}"
    file.write_text(password + "\n")
    return EtcdUser(name, str(file))


def _admin(etcd: EtcdServer, token: str, path: str, **fields: object) -> str:
    """etcd's own JSON gateway: what an administrator does with etcdctl."""
    url = f"http://{etcd.endpoint}/v3/auth/{path}"
    headers = {"Authorization": token} if token else {}
    request = urllib.request.Request(url, data=json.dumps(fields).encode(), headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(json.load(answer).get("token", ""))


def _token(etcd: EtcdServer, password: str = SECRET) -> str:
    return _admin(etcd, "", "authenticate", name="root", password=password)


def _require_passwords(etcd: EtcdServer, root: EtcdUser) -> None:
    with EtcdClient([etcd.endpoint], user=root, timeout=60) as client:
        client.require_password(root)


def _tokens_end(etcd: EtcdServer) -> None:
    """Waits until tokens that nobody used since are refused. Each is tried once, since a use prolongs its life."""
    unused = [_token(etcd) for _ in range(10)]

    def refused() -> bool:
        try:
            _admin(etcd, unused.pop(), "user/list")
        except urllib.error.HTTPError as exc:
            exc.close()
            return True
        return False

    wait_until(refused, "tokens end", step=1)


def test_reads_writes_watches_and_leases_outlive_their_tokens(etcd: EtcdServer, root: EtcdUser) -> None:
    _require_passwords(etcd, root)
    failures: list[BaseException] = []
    lost = threading.Event()
    with EtcdClient([etcd.endpoint], user=root, timeout=60) as client:
        keeper = LeaseKeeper(client, 20, lost.set)
        client.put("/watched/alive", "w", lease=keeper.start())
        mirror = PrefixMirror(client, "/watched/", lambda _: None, on_error=failures.append).start()
        assert mirror.wait_synced(60)
        _tokens_end(etcd)
        client.put("/watched/k", "1")
        wait_until(lambda: "/watched/k" in mirror.snapshot(), "the watch lives on")
        _tokens_end(etcd)
        assert client.txn([exists("/watched/k")], [Put("/watched/k", "2")]).succeeded
        _tokens_end(etcd)
        assert client.keepalive(keeper.lease_id) > 0
        etcd.kill()
        etcd.start()  # tokens live in its memory
        client.put("/watched/k", "3")
        wait_until(lambda: mirror.snapshot()["/watched/k"].value == "3", "the watch logged in again")
        before = keeper.remaining()
        wait_until(lambda: keeper.remaining() > before, "the lease is renewed")
        assert client.get("/watched/alive") is not None
        mirror.stop()
        keeper.stop()
        assert client.get("/watched/alive") is None
    assert not lost.is_set()
    assert failures == []


def test_a_refusal_names_the_settings_and_no_password(etcd: EtcdServer, root: EtcdUser, tmp_path: Path) -> None:
    _require_passwords(etcd, root)
    for user in (None, _user(tmp_path, "root", "wrong hush"), _user(tmp_path, "stranger", SECRET)):
        with EtcdClient([etcd.endpoint], user=user) as client:
            for call in (lambda: client.get("/k"), lambda: client.put("/k", "v")):
                with pytest.raises(DMError) as caught:
                    call()
                assert caught.value.code == 42501
                assert not caught.value.retryable
                assert "etcd-password-path" in caught.value.workaround
                assert "hush" not in str(caught.value)


def test_a_program_that_runs_follows_when_etcd_begins_to_ask_for_passwords(etcd: EtcdServer, root: EtcdUser) -> None:
    """An existing cluster: all programs have the password first, then etcd is switched."""
    failures: list[BaseException] = []
    with EtcdClient([etcd.endpoint], user=root, timeout=60) as client:
        assert not client.asks_for_password()
        client.put("/watched/k", "before")
        mirror = PrefixMirror(client, "/watched/", lambda _: None, on_error=failures.append).start()
        assert mirror.wait_synced(60)
        _require_passwords(etcd, root)
        client.put("/watched/k", "after")
        wait_until(lambda: mirror.snapshot()["/watched/k"].value == "after", "the watch lives on")
        assert client.asks_for_password()
        mirror.stop()
    assert failures == []


def test_a_new_password_needs_no_restart(etcd: EtcdServer, root: EtcdUser) -> None:
    _require_passwords(etcd, root)
    with EtcdClient([etcd.endpoint], user=root, timeout=60) as client:
        client.put("/k", "1")
        # First the file, as docs/runbooks.md says: until etcd has the new one, the former one is used.
        Path(root.password_path).write_text("renewed")
        _tokens_end(etcd)
        client.put("/k", "2")
        _admin(etcd, _token(etcd), "user/changepw", name="root", password="renewed")
        client.put("/k", "3")
        # A file that cannot be read for a moment.
        Path(root.password_path).unlink()
        assert client.asks_for_password()
        found = client.get("/k")
        assert found is not None
        assert found.value == "3"


def test_a_user_with_the_rights_of_docs_is_enough(etcd: EtcdServer, root: EtcdUser, tmp_path: Path) -> None:
    _require_passwords(etcd, root)
    token, user = _token(etcd), _user(tmp_path, "dm", "other")
    _admin(etcd, token, "user/add", name="dm", password="other")
    _admin(etcd, token, "role/add", name="dm")
    for prefix, end in (("/dm-master/", "/dm-master0"), ("/dm-worker/", "/dm-worker0")):
        key, range_end = (base64.b64encode(text.encode()).decode() for text in (prefix, end))
        _admin(etcd, token, "role/grant", name="dm", perm={"permType": 2, "key": key, "range_end": range_end})
    _admin(etcd, token, "user/grant", user="dm", role="dm")
    with EtcdClient([etcd.endpoint], user=user, timeout=60) as client:
        keeper = LeaseKeeper(client, 20, lambda: None)
        client.put("/dm-worker/a/w", "v", lease=keeper.start())
        assert client.txn([exists("/dm-worker/a/w")], [Put("/dm-master/k", "v")]).succeeded
        assert [kv.key for kv in client.get_prefix("/dm-master/")[0]] == ["/dm-master/k"]
        keeper.stop()
        with pytest.raises(DMError, match="permission denied"):
            client.put("/other", "v")
