"""Reads a server's accounts: their grants, their roles, whether they are locked. Passwords and hashes are not read."""

from __future__ import annotations

from typing import Any

import pymysql
from pymysql.connections import Connection

from dm_master.cutover.facts import Account, AccountFacts
from pkg.mysql.connection import error_number
from pkg.mysql.grants import Grants
from pkg.mysql.introspect import query

#: Accounts that servers create for internal use.
_SYSTEM_USERS = frozenset(
    {"mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys", "root", "mysql", "PUBLIC", ""}
)
#: Role, its grantee, and whether that one may grant it: MySQL and TiDB, then MariaDB.
_ROLES = (
    "SELECT FROM_USER, FROM_HOST, TO_USER, TO_HOST, WITH_ADMIN_OPTION FROM mysql.role_edges",
    "SELECT Role, '', User, Host, Admin_option FROM mysql.roles_mapping",
)
#: Role, and the account for which it is active in each new session.
_DEFAULT_ROLES = (
    "SELECT DEFAULT_ROLE_USER, DEFAULT_ROLE_HOST, USER, HOST FROM mysql.default_roles",
    "SELECT default_role, '', User, Host FROM mysql.user WHERE default_role <> ''",
)
_LOCKED = (
    "SELECT User, Host FROM mysql.user WHERE account_locked = 'Y'",
    "SELECT User, Host FROM mysql.global_priv WHERE JSON_VALUE(Priv, '$.account_locked')",
)
_MARIADB_ROLES = "SELECT User, Host FROM mysql.user WHERE is_role = 'Y'"
#: No such column, no such table: a version without roles or locks.
_NOT_KNOWN = frozenset({1054, 1146})
#: The account was dropped meanwhile.
_DROPPED = 1141


def read_accounts(conn: Connection[Any], flavor: str) -> dict[Account, AccountFacts]:
    """Raises pymysql.Error, also if the user may not read this."""
    form = flavor == "mariadb"
    edges = [(Account.of(*row[:2]), Account.of(*row[2:4]), str(row[4]) == "Y") for row in _if_known(conn, _ROLES[form])]
    defaults = [(Account.of(*row[:2]), Account.of(*row[2:])) for row in _if_known(conn, _DEFAULT_ROLES[form])]
    locked = {Account.of(*row) for row in _if_known(conn, _LOCKED[form])}
    roles = {role for role, _, _ in edges} | {
        Account.of(*row) for row in (_if_known(conn, _MARIADB_ROLES) if form else ())
    }
    found = {}
    for user, host in query(conn, "SELECT User, Host FROM mysql.user"):
        account = Account.of(user, host)
        lines = None if account.user in _SYSTEM_USERS else _granted(conn, account, bare=form and account in roles)
        if lines is not None:
            found[account] = AccountFacts(
                Grants(lines),
                {role: passes_on for role, grantee, passes_on in edges if grantee == account},
                frozenset(role for role, grantee in defaults if grantee == account),
                account in roles,
                account in locked,
            )
    return found


def _granted(conn: Connection[Any], account: Account, *, bare: bool) -> list[str] | None:
    """The lines of SHOW GRANTS; None for an account that does not exist any more. ``bare``: a role of MariaDB, whose
    lines contain those of its roles too."""
    name = account.as_role("mariadb") if bare else str(account)
    try:
        lines = [str(row[0]) for row in query(conn, f"SHOW GRANTS FOR {name}")]
    except pymysql.Error as exc:
        if error_number(exc) != _DROPPED:
            raise
        return None
    return [line for line in lines if line.rstrip().partition(" WITH ")[0].endswith(f" TO {name}")] if bare else lines


def _if_known(conn: Connection[Any], sql: str) -> list[tuple[Any, ...]]:
    try:
        return query(conn, sql)
    except pymysql.Error as exc:
        if error_number(exc) not in _NOT_KNOWN:
            raise
        return []
