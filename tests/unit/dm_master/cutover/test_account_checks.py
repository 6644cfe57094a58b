"""Hazard: an application can't do at the target what it could do in the upstream, and the check says that it can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from dm_master.cutover.account_checks import check_users
from dm_master.cutover.facts import Account, AccountFacts, CutoverFacts
from dm_master.cutover.verdict import CheckVerdict
from pkg.mysql.grants import Grants
from pkg.mysql.introspect import ServerInfo
from tests.unit.dm_master.cutover.made_facts import INFO, TARGET, ready, server, target, upstream

_SHOP, _READER = Account("shop", "%"), Account("reader", "%")
_MYSQL = ServerInfo("mysql", (8, 0, 36), "8.0.36", 1, "", True)
_LINE = "GRANT {} TO `shop`@`%`"


def _account(*granted: str, **changes: object) -> AccountFacts:
    return replace(AccountFacts(Grants([_LINE.format(one) for one in granted])), **changes)  # type: ignore[arg-type]


def _facts(
    here: Mapping[Account, AccountFacts], there: Mapping[Account, AccountFacts], flavor: ServerInfo = INFO
) -> CutoverFacts:
    return ready(
        upstreams=(upstream(server=server("one", ("app", "t1"), users=here)),),
        target=target(server=server("target", TARGET, users=there, info=flavor)),
    )


def _commands(found: CheckVerdict) -> list[str]:
    listed, _, note = found.remedy.removeprefix("on the target: ").partition(" — ")
    assert "password" in note
    return listed.split("; ")


@pytest.mark.parametrize(
    ("here", "there", "command"),
    [
        ("SELECT ON `app`.*", "USAGE ON *.*", "GRANT SELECT ON `merged`.* TO 'shop'@'%'"),
        ("INSERT, SELECT ON `app`.*", "SELECT ON `merged`.*", "GRANT INSERT ON `merged`.* TO 'shop'@'%'"),
        # A right on everything is one on the task's schemas.
        ("SELECT ON *.*", "SELECT ON `other`.*", "GRANT SELECT ON `merged`.* TO 'shop'@'%'"),
        ("SELECT ON `a%`.*", "SELECT ON `app`.*", "GRANT SELECT ON `merged`.* TO 'shop'@'%'"),
        # On the whole schema is more than on its tables of today.
        ("SELECT ON `app`.*", "SELECT ON `merged`.`t`", "GRANT SELECT ON `merged`.* TO 'shop'@'%'"),
        ("ALL PRIVILEGES ON `app`.*", "USAGE ON *.*", "GRANT ALL PRIVILEGES ON `merged`.* TO 'shop'@'%'"),
        ("SELECT ON `app`.`t1`", "SELECT ON `app`.`t1`", "GRANT SELECT ON `merged`.`t` TO 'shop'@'%'"),
        ("ALL PRIVILEGES ON `app`.`t1`", "USAGE ON *.*", "GRANT ALL PRIVILEGES ON `merged`.`t` TO 'shop'@'%'"),
        ("SELECT (`id`) ON `app`.`t1`", "SELECT (`name`) ON `merged`.`t`",
         "GRANT SELECT (`id`) ON `merged`.`t` TO 'shop'@'%'"),
        ("EXECUTE ON PROCEDURE `app`.`p`", "EXECUTE ON FUNCTION `merged`.`p`",
         "GRANT EXECUTE ON PROCEDURE `merged`.`p` TO 'shop'@'%'"),
    ],
)  # fmt: skip
def test_a_missing_right_is_named_with_its_grant(here: str, there: str, command: str) -> None:
    found = check_users(_facts({_SHOP: _account(here)}, {_SHOP: _account(there)}))
    assert found.verdict == "no"
    assert _commands(found) == [command]
    privilege, _, scope = command.removeprefix("GRANT ").partition(" TO ")[0].partition(" ON ")
    assert found.evidence == (f"one: 'shop'@'%' lacks {privilege} on {scope}",)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("SELECT ON `app`.*", "ALL PRIVILEGES ON *.*"),
        ("ALL PRIVILEGES ON `app`.`t1`", "ALL PRIVILEGES ON `mer%`.*"),
        ("SELECT (`id`) ON `app`.`t1`", "SELECT (`id`, `name`) ON `merged`.`t`"),
        ("SELECT (`id`) ON `app`.`t1`", "SELECT ON `merged`.`t`"),
        ("EXECUTE ON PROCEDURE `app`.`p`", "EXECUTE ON PROCEDURE `merged`.`p`"),
        ("EXECUTE ON PROCEDURE `app`.`p`", "EXECUTE ON `merged`.*"),
        # What is not migrated is not the task's.
        ("SELECT ON `other`.*", "USAGE ON *.*"),
        ("SELECT ON `app`.`other`", "USAGE ON *.*"),
        ("PROCESS, REPLICATION SLAVE ON *.*", "USAGE ON *.*"),
    ],
)
def test_rights_with_the_same_effect_pass(here: str, there: str) -> None:
    found = check_users(_facts({_SHOP: _account(here)}, {_SHOP: _account(there)}))
    assert (found.verdict, found.remedy) == ("yes", "")


def test_the_right_to_grant_is_not_part_of_all_privileges() -> None:
    here = AccountFacts(Grants(["GRANT ALL PRIVILEGES ON `app`.* TO `shop`@`%` WITH GRANT OPTION"]))
    found = check_users(_facts({_SHOP: here}, {_SHOP: _account("ALL PRIVILEGES ON *.*")}))
    assert found.evidence == ("one: 'shop'@'%' lacks GRANT OPTION on `merged`.*",)
    assert _commands(found) == ["GRANT USAGE ON `merged`.* TO 'shop'@'%' WITH GRANT OPTION"]


def test_a_schemas_name_is_no_pattern_in_the_command() -> None:
    facts = _facts({_SHOP: _account("SELECT ON `app`.*")}, {_SHOP: _account("USAGE ON *.*")})
    (one,) = facts.upstreams
    facts = replace(facts, upstreams=(replace(one, routed={("app", "t1"): ("my_app", "t")}),))
    assert _commands(check_users(facts)) == ["GRANT SELECT ON `my\\_app`.* TO 'shop'@'%'"]


def test_accounts_and_roles_are_created_before_they_are_granted() -> None:
    here = {
        _SHOP: _account("INSERT ON `app`.*", roles={_READER: True}, defaults=frozenset({_READER})),
        _READER: AccountFacts(Grants(["GRANT SELECT ON `app`.* TO `reader`@`%`"]), is_role=True),
    }
    found = check_users(_facts(here, {}, _MYSQL))
    assert _commands(found) == [
        "CREATE ROLE 'reader'@'%'",
        "CREATE USER 'shop'@'%' ACCOUNT LOCK",
        "GRANT 'reader'@'%' TO 'shop'@'%' WITH ADMIN OPTION",
        "GRANT SELECT ON `merged`.* TO 'reader'@'%'",
        "GRANT INSERT ON `merged`.* TO 'shop'@'%'",
        "SET DEFAULT ROLE 'reader'@'%' TO 'shop'@'%'",
    ]
    assert _commands(check_users(_facts(here, {}, INFO)))[-1] == "SET DEFAULT ROLE `reader` FOR 'shop'@'%'"
    assert "one: 'reader'@'%' lacks SELECT on `merged`.*" in found.evidence
    assert "one: 'shop'@'%' lacks role 'reader'@'%' WITH ADMIN OPTION" in found.evidence
    # MariaDB's role has no host.
    assert Account.of("reader", "") == _READER
    there = {
        _SHOP: replace(here[_SHOP], grants=Grants([_LINE.format("INSERT ON `merged`.*")])),
        _READER: replace(here[_READER], grants=Grants(["GRANT SELECT ON `merged`.* TO `reader`@`%`"])),
    }
    assert check_users(_facts(here, there)).verdict == "yes"


def test_an_account_that_can_not_log_in_is_named() -> None:
    found = check_users(_facts({_SHOP: _account()}, {_SHOP: _account(locked=True)}))
    assert found.evidence == ("one: 'shop'@'%' is locked at the target",)
    assert _commands(found) == ["ALTER USER 'shop'@'%' IDENTIFIED BY '…' ACCOUNT UNLOCK"]
    assert check_users(_facts({_SHOP: _account(locked=True)}, {_SHOP: _account(locked=True)})).verdict == "yes"


def test_names_of_users_differ_by_case_and_names_of_hosts_do_not() -> None:
    here = {Account.of("Shop", "LOCALHOST"): _account()}
    assert check_users(_facts(here, {Account.of("shop", "localhost"): _account()})).verdict == "no"
    assert check_users(_facts(here, {Account.of("Shop", "localhost"): _account()})).verdict == "yes"


def test_no_password_is_in_evidence_or_commands() -> None:
    line = "GRANT SELECT ON `app`.* TO 'shop'@'%' IDENTIFIED BY PASSWORD '*B69027D44F'"
    found = check_users(_facts({_SHOP: AccountFacts(Grants([line]))}, {}))
    assert "B69027" not in f"{found.evidence}{found.remedy}"
    assert "GRANT SELECT" in found.remedy


def test_rights_of_several_upstreams_are_one_grant() -> None:
    facts = _facts({_SHOP: _account("SELECT ON `app`.*")}, {_SHOP: _account()})
    (one,) = facts.upstreams
    two = replace(one, server=replace(one.server, label="two", users={_SHOP: _account("INSERT ON `app`.*")}))
    found = check_users(replace(facts, upstreams=(one, two)))
    assert found.evidence == ("one, two: 'shop'@'%' lacks INSERT, SELECT on `merged`.*",)
    assert _commands(found) == ["GRANT INSERT, SELECT ON `merged`.* TO 'shop'@'%'"]
