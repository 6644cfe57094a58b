"""Accounts with rights of every kind, and what a cutover says of them."""

from __future__ import annotations

from contextlib import closing

from deploy.local.mysql import SQLServer
from deploy.local.tidb import TiDBServer
from dm_master.cutover.account_checks import check_users
from dm_master.cutover.account_reading import read_accounts
from dm_master.cutover.facts import Account, AccountFacts
from dm_master.cutover.verdict import CheckVerdict
from pkg.mysql.introspect import server_info
from tests.unit.dm_master.cutover.made_facts import TARGET, ready, server, target, upstream

_MADE = (
    "CREATE DATABASE app",
    "CREATE TABLE app.t1 (id INT PRIMARY KEY, name VARCHAR(9))",
    "CREATE PROCEDURE app.p() SELECT 1",
    "CREATE ROLE reader, chief",
    "GRANT SELECT ON app.* TO reader",
    "GRANT reader TO chief",
    "GRANT UPDATE ON app.t1 TO chief",
    "CREATE USER shop@localhost IDENTIFIED BY 'Secret-1'",
    "CREATE USER web@'10.0.0.%' IDENTIFIED BY 'Secret-1'",
    "CREATE USER blind@'%' IDENTIFIED BY 'Secret-1'",
    "GRANT ALL ON app.* TO shop@localhost WITH GRANT OPTION",
    "GRANT SELECT (id, name), INSERT (id), DELETE ON app.t1 TO web@'10.0.0.%'",
    "GRANT EXECUTE ON PROCEDURE app.p TO web@'10.0.0.%'",
    "GRANT chief TO web@'10.0.0.%' WITH ADMIN OPTION",
)
_TARGET_MADE = (
    "CREATE DATABASE merged",
    "CREATE TABLE merged.t (id INT PRIMARY KEY, name VARCHAR(9))",
)
#: TiDB has no procedures, nor the right to grant a role to others.
_ON_PROCEDURE = "'web'@'10.0.0.%' lacks EXECUTE on PROCEDURE `merged`.`p`"


def _read(one: SQLServer) -> dict[Account, AccountFacts]:
    with closing(one.connect()) as conn:
        return read_accounts(conn, one.flavor)


def _checked(source: SQLServer, there: SQLServer) -> CheckVerdict:
    with closing(there.connect()) as conn:
        info = server_info(conn)
    return check_users(
        ready(
            upstreams=(upstream(server=server("one", ("app", "t1"), users=_read(source))),),
            target=target(server=server("target", TARGET, users=_read(there), info=info)),
        )
    )


def proves_that_the_commands_give_all_rights(source: SQLServer, there: SQLServer) -> None:
    """The rights that are missing are named; with the remedy nothing is missing; and then what is taken away again."""
    word = "FOR" if source.flavor == "mariadb" else "TO"
    source.execute(*_MADE, f"SET DEFAULT ROLE chief {word} web@'10.0.0.%'")
    there.execute(*_TARGET_MADE)
    is_whole = not isinstance(there, TiDBServer)
    if is_whole:
        there.execute("CREATE PROCEDURE merged.p() SELECT 1")
    found = _checked(source, there)
    assert found.verdict == "no"
    shown = "\n".join(found.evidence)
    for line in (
        "'shop'@'localhost' lacks ALL PRIVILEGES, GRANT OPTION on `merged`.*",
        "'web'@'10.0.0.%' lacks DELETE, INSERT (`id`), SELECT (`id`), SELECT (`name`) on `merged`.`t`",
        f"'web'@'10.0.0.%' lacks role 'chief'@'%'{' WITH ADMIN OPTION' if is_whole else ''}",
        "'web'@'10.0.0.%' lacks default role 'chief'@'%'",
        "'chief'@'%' lacks role 'reader'@'%'",
        "'chief'@'%' lacks UPDATE on `merged`.`t`",
        "'reader'@'%' lacks SELECT on `merged`.*",
        "'blind'@'%' is not at the target",
    ):
        assert f"one: {line}" in found.evidence, shown
    assert (f"one: {_ON_PROCEDURE}" in found.evidence) is is_whole
    assert "Secret" not in found.remedy
    there.execute(*found.remedy.removeprefix("on the target: ").partition(" — ")[0].split("; "))
    # They can't log in before they have a password.
    locked = _checked(source, there)
    assert sorted(locked.evidence) == [
        f"one: {name} is locked at the target" for name in ("'blind'@'%'", "'shop'@'localhost'", "'web'@'10.0.0.%'")
    ]
    passwords = locked.remedy.removeprefix("on the target: ").partition(" — ")[0].replace("…", "Secret-2")
    there.execute(*passwords.split("; "))
    assert _checked(source, there).verdict == "yes"
    there.execute("REVOKE DELETE ON merged.t FROM web@'10.0.0.%'")
    assert _checked(source, there).evidence == ("one: 'web'@'10.0.0.%' lacks DELETE on `merged`.`t`",)
