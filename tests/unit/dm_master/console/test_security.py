"""Hazard: a visitor without the right sends an order, or a name in the cluster becomes a script in an operator's
browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dm_master.console.access import is_local
from dm_master.console.forms import MAX_FORM
from dm_master.console.pages import LIVE_PAGES
from dm_master.console.sessions import (
    FREE_FAILURES,
    IDLE,
    LONGEST,
    LONGEST_ADDRESS_WAIT,
    MOST_SESSIONS,
    LoginBrake,
    Sessions,
)
from pkg.pb import dmmaster_pb2 as pb
from pkg.pb import dmworker_pb2 as worker_pb
from tests.harness.canned_cluster import CannedCluster, failed
from tests.unit.asgi import ask
from tests.unit.dm_master.console.support import PASSWORD, USER, ConsoleBrowser

EVIL = "\"><script>alert(1)</script><img src=x onerror=alert(2)>`'&"
#: Every page with a query that shows names.
PAGES: list[tuple[str, dict[str, str]]] = [
    *((name, {"q": EVIL, "name": EVIL}) for name in LIVE_PAGES),
    ("task", {"name": f"task{EVIL}"}),
    ("rules", {"task": EVIL, "q": EVIL}),
    ("checks", {"task": EVIL}),
    ("cutover", {"task": EVIL, "accept": EVIL}),
    ("config", {"kind": "task", "name": EVIL}),
    ("events", {}),
    ("purge", {"source": EVIL}),
    ("move", {"source": EVIL}),
    ("confirm", {"do": "stop", "task": EVIL, "source": EVIL}),
    ("confirm", {"do": "remove-worker", "worker": EVIL}),
    ("confirm", {"do": "remove-master", "master": EVIL}),
    ("confirm", {"do": "disable-source", "source": EVIL}),
    ("confirm", {"do": "clear-error", "task": EVIL, "error": "7"}),
    ("confirm", {"do": EVIL}),
    ("add-source", {}),
    ("add-task", {}),
    ("login", {}),
    (EVIL, {}),
]


class _Tags(HTMLParser):
    """All tags with their attributes; scripts without a source are not the console's."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def _evil_cluster() -> CannedCluster:
    cluster = CannedCluster()
    source = cluster.add_source(f"source{EVIL}")
    subtask = failed(f"task{EVIL}")
    subtask.result.errors[0].Message = subtask.result.errors[0].RawCause = subtask.result.errors[0].Workaround = EVIL
    subtask.sync.unresolvedGroups.add(target=EVIL, DDLs=[EVIL], unsynced=[EVIL])
    subtask.sync.conflictMsg = subtask.sync.targetDDL = subtask.sync.masterBinlog = EVIL
    source.subTaskStatus.append(subtask)
    cluster.locks.locks.add(ID=EVIL, task=EVIL, owner=EVIL, DDLs=[EVIL], synced=[EVIL], unsynced=[EVIL], problem=EVIL)
    table = pb.TableRules(source=EVIL, schema=EVIL, table=EVIL, targetSchema=EVIL, targetTable=EVIL)
    table.rules.add(block=EVIL, name=EVIL, effect=EVIL)
    cluster.members.members[-1].worker.workers.add(name=EVIL, addr=EVIL, stage="offline", source=EVIL)
    masters = next(one.master for one in cluster.members.members if one.WhichOneof("member") == "master")
    masters.masters.add(name=EVIL, memberID=2, clientURLs=[EVIL])
    differing = worker_pb.ValidationError(
        id="7", source=EVIL, srcTable=EVIL, dstTable=EVIL, srcData=EVIL, dstData=EVIL, errorType=EVIL, message=EVIL,
        status=worker_pb.NewErr,
    )  # fmt: skip
    validator = worker_pb.ValidationStatus(
        source=EVIL, mode=EVIL, validatorBinlog=EVIL, notes=[EVIL], sweepStatus=EVIL, foreignWrites=EVIL
    )
    cluster.answers |= {
        "GetValidationStatus": worker_pb.GetValidationStatusResponse(result=True, validators=[validator]),
        "GetValidationError": worker_pb.GetValidationErrorResponse(result=True, error=[differing]),
        "GetCfg": pb.GetCfgResponse(result=True, cfg=EVIL),
        "ShowRules": pb.ShowRulesResponse(result=True, tables=[table], summary=pb.RulesSummary(unused=[EVIL])),
        "ListTaskConfigs": pb.ListTaskConfigsResponse(result=True, taskConfigs={EVIL: EVIL}),
        "CheckCutover": pb.CheckCutoverResponse(
            msg=EVIL, checks=[pb.CutoverCheck(name=EVIL, verdict=EVIL, evidence=[EVIL], remedy=EVIL)]
        ),
        "OperateDiff": pb.OperateDiffResponse(
            result=True,
            verdict=EVIL,
            sources=[worker_pb.DiffSourceStatus(source=EVIL, tables=[worker_pb.DiffTableStatus(target=EVIL)])],
        ),
    }
    return cluster


@pytest.mark.parametrize(("page", "query"), PAGES)
def test_names_and_messages_stay_text(users: Path, page: str, query: dict[str, str]) -> None:
    browser = ConsoleBrowser(_evil_cluster(), users)
    browser.log_in()
    tags = _Tags()
    tags.feed(browser.get(page, **query).body.decode())
    assert tags.found
    for tag, attributes in tags.found:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert tag != "style"
        assert tag != "script" or (attributes.get("src") or "").startswith("/console/static/")
        assert tag != "img" or attributes.get("src", "").startswith("/console/static/")  # type: ignore[union-attr]
        for name in ("href", "action", "src"):
            assert (attributes.get(name) or "/").startswith(("/console/", "#", "/"))


def test_the_pages_contain_the_hostile_names(users: Path) -> None:
    browser = ConsoleBrowser(_evil_cluster(), users)
    assert "&lt;script&gt;alert(1)" in browser.get("task", name=f"task{EVIL}").body.decode()


@pytest.mark.parametrize("page", ["", "login", "nope", "static/console.css", "live", "do"])
def test_every_answer_has_the_headers(browser: ConsoleBrowser, page: str) -> None:
    headers = browser.get(page, page="nope").headers
    policy = headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


ORDER = {"do": "pause", "task": "orders"}


def _orders(cluster: CannedCluster) -> int:
    return cluster.calls["OperateTask"]


def test_an_order_with_a_login_and_the_token_is_carried_out(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    assert browser.log_in().status == 303
    assert browser.post("do", token=browser.token(), **ORDER).status == 200
    assert _orders(cluster) == 1


def test_without_a_login_local_visitors_may_read_but_not_act(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    assert browser.get("").status == 200
    assert browser.token() == ""
    assert browser.post("do", token="", **ORDER).status == 303
    for page in ("add-source", "add-task", "logout"):
        assert browser.post(page, token="").status == 303
    assert not {"OperateTask", "OperateSource", "StartTask", "CheckTask"} & set(cluster.calls)


@pytest.mark.parametrize("page", ["", "task", "config", "events", "add-task", "confirm", "purge", "move"])
def test_remote_visitors_see_nothing_without_a_login(cluster: CannedCluster, users: Path, page: str) -> None:
    browser = ConsoleBrowser(cluster, users, client="10.0.0.9")
    answer = browser.get(page, do="stop", task="orders")
    assert (answer.status, answer.headers["location"]) == (303, "/console/login")
    assert browser.get("live", page="overview").status == 403
    assert not cluster.calls
    browser.log_in()
    assert browser.get("").status == 200


def test_remote_visitors_see_nothing_if_no_users_exist(cluster: CannedCluster) -> None:
    browser = ConsoleBrowser(cluster, None, client="10.0.0.9")
    assert browser.get("").status == 403
    assert browser.post("login", user="", password="").status == 403


@pytest.mark.parametrize(
    ("client", "headers", "local"),
    [
        ("127.0.0.1", {}, True),
        ("127.8.9.1", {}, True),
        ("::1", {}, True),
        ("::ffff:127.0.0.1", {}, True),
        ("::ffff:10.0.0.1", {}, False),
        ("10.0.0.1", {}, False),
        ("", {}, False),
        ("127.0.0.1", {"x-forwarded-for": "10.0.0.1"}, False),
        ("127.0.0.1", {"forwarded": "for=10.0.0.1"}, False),
    ],
)
def test_clients_of_a_local_proxy_are_not_local(client: str, headers: dict[str, str], local: bool) -> None:
    assert is_local(client, headers) is local


def test_a_client_certificate_is_a_login(cluster: CannedCluster) -> None:
    browser = ConsoleBrowser(cluster, None, client="10.0.0.9")
    page = ask(browser.app, "GET", "/console/add-source", client="10.0.0.9", certificate="PEM")
    token = re.search(r'name="token" value="([^"]+)"', page.body.decode())
    assert token is not None
    assert "CN=ops" in page.body.decode()
    body = f"token={token[1]}&do=pause&task=orders".encode()
    kind = {"content-type": "application/x-www-form-urlencoded"}
    path, other = "/console/do", "another PEM"
    assert ask(browser.app, "POST", path, headers=kind, body=body, client="10.0.0.9", certificate=other).status == 403
    assert _orders(cluster) == 0
    assert ask(browser.app, "POST", path, headers=kind, body=body, client="10.0.0.9", certificate="PEM").status == 200
    assert _orders(cluster) == 1


@pytest.mark.parametrize("token", ["", "guess", "é"])
def test_a_form_of_another_site_has_no_token(browser: ConsoleBrowser, cluster: CannedCluster, token: str) -> None:
    browser.log_in()
    assert browser.post("do", token=token, **ORDER).status == 403
    assert _orders(cluster) == 0


def test_the_token_of_another_session_is_refused(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    browser.log_in()
    before = browser.token()
    browser.log_in()
    assert browser.post("do", token=before, **ORDER).status == 403
    assert _orders(cluster) == 0


def test_a_page_of_another_site_is_refused_even_with_a_valid_token(
    browser: ConsoleBrowser, cluster: CannedCluster
) -> None:
    browser.log_in()
    token = browser.token()
    for origin in ("https://evil.example", "null"):
        headers = {"origin": origin, "host": "127.0.0.1:8261"}
        assert browser.post("do", headers, token=token, **ORDER).status == 403
    assert browser.get("", {"host": "evil.example"}).status == 403
    assert browser.post("do", {"content-type": "text/plain"}, token=token, **ORDER).status == 415
    assert _orders(cluster) == 0


def test_an_order_needs_post(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    browser.log_in()
    assert browser.get("do", token=browser.token(), **ORDER).status == 405
    assert _orders(cluster) == 0


def test_the_cookie_is_only_for_this_port_and_no_script(browser: ConsoleBrowser) -> None:
    cookie = browser.log_in().headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/console" in cookie
    assert "Secure" not in cookie
    kind = {"content-type": "application/x-www-form-urlencoded"}
    body = f"user={USER}&password={PASSWORD}".encode()
    assert (
        "Secure"
        in ask(browser.app, "POST", "/console/login", headers=kind, body=body, certificate="PEM").headers["set-cookie"]
    )


def test_after_a_logout_the_session_is_gone(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    browser.log_in()
    session, token = browser.cookie, browser.token()
    assert browser.post("logout", token="guess").status == 403
    assert browser.post("logout", token=token).status == 303
    browser.cookie = session
    assert browser.post("do", token=token, **ORDER).status == 303
    assert _orders(cluster) == 0


def test_sessions_end_by_themselves_and_are_bounded() -> None:
    numbers = iter(range(10**6))
    sessions = Sessions(lambda: str(next(numbers)))
    key = sessions.create("anna", 0.0)
    assert sessions.find(key, IDLE - 1) is not None
    assert sessions.find(key, 2 * IDLE) is None
    key, now = sessions.create("anna", 0.0), 0.0
    while now < LONGEST:
        now += IDLE / 2
        found = sessions.find(key, now)
    assert found is None or now <= LONGEST
    assert sessions.find(key, LONGEST + 1) is None
    first = sessions.create("anna", 0.0)
    for _ in range(MOST_SESSIONS):
        sessions.create("anna", 0.0)
    assert sessions.find(first, 0.0) is None


def test_repeated_login_failures_are_slowed_down(browser: ConsoleBrowser) -> None:
    for _ in range(FREE_FAILURES):
        assert browser.log_in("wrong").status == 403
    answer = browser.log_in()
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert browser.cookie == ""


def test_an_unknown_user_gets_the_answer_of_a_wrong_password(browser: ConsoleBrowser) -> None:
    wrong = browser.post("login", user="anna", password="no").body
    assert browser.post("login", user="nobody", password="no").body == wrong


def test_the_wait_grows_for_the_address_and_does_not_lock_the_user_out() -> None:
    brake, now = LoginBrake(), 0.0
    waits = []
    for _ in range(40):
        now += brake.wait("10.0.0.9", "anna", now)
        brake.fail("10.0.0.9", "anna", now)
        waits.append(brake.wait("10.0.0.9", "anna", now))
    assert waits[: FREE_FAILURES - 1] == [0.0] * (FREE_FAILURES - 1)
    assert waits[-1] == LONGEST_ADDRESS_WAIT
    assert 0 < brake.wait("10.0.0.1", "anna", now) <= 30
    assert brake.wait("10.0.0.1", "bert", now) == 0
    brake.succeed("10.0.0.9", "anna")
    assert brake.wait("10.0.0.9", "anna", now) == 0


@pytest.mark.parametrize(
    "name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "....//app.py", "/etc/passwd", "console.css%00", "README.md"]
)
def test_static_files_are_only_those_of_the_console(browser: ConsoleBrowser, name: str) -> None:
    answer = browser.get(f"static/{name}")
    assert answer.status == 404
    assert b"import" not in answer.body


def test_a_form_has_a_limit(browser: ConsoleBrowser) -> None:
    assert browser.post("login", user="anna", password="x" * MAX_FORM).status == 413
    assert browser.post("login", **{f"field{number}": "" for number in range(3000)}).status == 400


def test_no_page_shows_a_password_that_was_typed(browser: ConsoleBrowser, cluster: CannedCluster) -> None:
    cluster.answers["OperateSource"] = pb.OperateSourceResponse(msg="cannot connect")
    cluster.answers["CheckTask"] = pb.CheckTaskResponse(msg="[code=20001] Message: routes are wrong")
    browser.log_in()
    token, secret = browser.token(), "Pa$$word-7"
    for page in ("add-source", "add-task"):
        answer = browser.post(page, token=token, name="t", source="s", host="h", port="1", user="u", password=secret)
        assert secret not in answer.body.decode()
        assert b"wrong" in answer.body or b"cannot connect" in answer.body
    assert secret in str(cluster.requests)
