"""Whether the accounts of the upstreams are at the target, with their rights on the task's tables. Pure.

Effects are compared, not texts: an account needs each privilege that it has on a migrated schema, table, column or
routine on what that becomes at the target. Passwords can't be compared, and are in no command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dm_master.cutover.facts import Account, AccountFacts, CutoverFacts, CutoverUpstream
from dm_master.cutover.verdict import CheckVerdict, Unreadable, at_target, problems, unknown
from pkg.mysql.grants import GRANT_OPTION, Grants
from pkg.mysql.introspect import ServerInfo
from pkg.mysql.names import escaped, qualified, quote

_OF_TABLES = frozenset(
    {
        *("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "REFERENCES", "INDEX", "ALTER", "TRIGGER"),
        *("CREATE VIEW", "SHOW VIEW", GRANT_OPTION),
    }
)
_OF_SCHEMAS = _OF_TABLES | {
    *("CREATE TEMPORARY TABLES", "LOCK TABLES", "EXECUTE", "CREATE ROUTINE", "ALTER ROUTINE", "EVENT")
}
#: The first versions of MariaDB that can lock an account, and that have a privilege to see routines.
_LOCKS_SINCE, _SHOWS_ROUTINES_SINCE = (10, 4, 2), (11, 3, 0)
#: Commands by their first word: accounts and roles first, since the others name them.
_ORDER = ("CREATE", "ALTER", "GRANT", "SET")


@dataclass(frozen=True, slots=True, order=True)
class _PrivilegeScope:
    """What a privilege is on: ``sql`` as in GRANT, ``shown`` for people. ``every``: the privileges that exist on it,
    empty where that is not known."""

    sql: str
    shown: str
    every: frozenset[str] = field(default=frozenset(), compare=False)


_LostRight = tuple[_PrivilegeScope, str]


@dataclass(frozen=True, slots=True)
class _MissingRight:
    account: Account
    source: str
    scope: _PrivilegeScope
    privilege: str


def check_users(facts: CutoverFacts) -> CheckVerdict:
    """The accounts of the upstreams are at the target, with their roles and their privileges on the task's schemas."""
    there = facts.target.server.users
    sides = [(one.server.label, one.server.users) for one in facts.upstreams] + [("target", there)]
    closed = [(label, users) for label, users in sides if isinstance(users, Unreadable)]
    if isinstance(there, Unreadable) or closed:
        return unknown("users", closed)
    evidence: dict[str, None] = {}
    commands: dict[str, None] = {}
    for upstream in facts.upstreams:
        for account, here in sorted(_accounts(upstream).items()):
            at = there.get(account)
            for line, command in _lacks(account, here, at, facts.target.server.info):
                evidence[f"{upstream.server.label}: {account} {line}"] = None
                commands[command] = None
    rights = [right for upstream in facts.upstreams for right in _missing_rights(upstream, facts)]
    for line, command in _granting(rights, _roles(facts), facts.target.server.info.flavor):
        evidence[line] = None
        commands[command] = None
    ordered = sorted(commands, key=lambda command: _ORDER.index(command.partition(" ")[0]))
    remedy = at_target(ordered, "with passwords of your own; --accept users if the rest is not needed")
    return problems(
        "users",
        list(evidence),
        remedy,
        otherwise="each account of the upstreams is at the target, with its roles and its privileges on the task's "
        "schemas",
    )


def _accounts(upstream: CutoverUpstream) -> Mapping[Account, AccountFacts]:
    users = upstream.server.users
    return {} if isinstance(users, Unreadable) else users


def _roles(facts: CutoverFacts) -> set[Account]:
    return {account for one in facts.upstreams for account, found in _accounts(one).items() if found.is_role}


def _lacks(
    account: Account, here: AccountFacts, at: AccountFacts | None, target: ServerInfo
) -> Iterator[tuple[str, str]]:
    """What the account lacks at the target, apart from privileges: evidence and command."""
    name = account.as_role(target.flavor) if here.is_role else str(account)
    if at is None:
        yield "is not at the target", _creation(name, here, target)
    elif at.locked and not (here.locked or here.is_role):
        yield "is locked at the target", f"ALTER USER {name} IDENTIFIED BY '…' ACCOUNT UNLOCK"
    for role, passes_on in sorted(here.roles.items()):
        has = None if at is None else at.roles.get(role)
        # TiDB does not have this right.
        option = " WITH ADMIN OPTION" if passes_on and target.flavor != "tidb" else ""
        if has is None or (option and not has):
            yield f"lacks role {role}{option}", f"GRANT {role.as_role(target.flavor)} TO {name}{option}"
    for role in sorted(here.defaults - (frozenset() if at is None else at.defaults)):
        word = "FOR" if target.flavor == "mariadb" else "TO"
        yield f"lacks default role {role}", f"SET DEFAULT ROLE {role.as_role(target.flavor)} {word} {name}"


def _creation(name: str, here: AccountFacts, target: ServerInfo) -> str:
    """A new account is locked until it gets a password."""
    if here.is_role:
        return f"CREATE ROLE {name}"
    if target.flavor == "mariadb" and target.version < _LOCKS_SINCE:
        return f"CREATE USER {name} IDENTIFIED BY '…'"
    return f"CREATE USER {name} ACCOUNT LOCK"


def _missing_rights(upstream: CutoverUpstream, facts: CutoverFacts) -> Iterator[_MissingRight]:
    there = facts.target.server.users
    assert not isinstance(there, Unreadable)
    target = facts.target.server.info
    of_schemas = _OF_SCHEMAS | _shared_extras(upstream.server.info, target)
    schemas = upstream.schemas()
    for account, here in _accounts(upstream).items():
        at = there[account].grants if account in there else Grants(())
        lost = [*_lost_on_schemas(here.grants, at, schemas, of_schemas), *_lost_on_tables(here.grants, at, upstream)]
        if target.flavor != "tidb":
            lost += _lost_on_routines(here.grants, at, schemas)
        for scope, privilege in lost:
            yield _MissingRight(account, upstream.server.label, scope, privilege)


def _shared_extras(here: ServerInfo, there: ServerInfo) -> frozenset[str]:
    """The privileges on schemas that only MariaDB has, if both servers have them."""
    if here.flavor != "mariadb" or there.flavor != "mariadb":
        return frozenset()
    both = min(here.version, there.version)
    return frozenset({"SHOW CREATE ROUTINE"}) if both >= _SHOWS_ROUTINES_SINCE else frozenset()


def _lost_on_schemas(
    here: Grants, there: Grants, schemas: Mapping[str, Sequence[str]], privileges: frozenset[str]
) -> Iterator[_LostRight]:
    """The privileges of an account in the upstream that it does not have at the target, by their scope there."""
    for schema, targets in schemas.items():
        for privilege in privileges:
            if here.allows(privilege, schema):
                for target in targets:
                    if not there.allows(privilege, target):
                        yield (
                            _PrivilegeScope(f"{quote(escaped(target))}.*", f"{quote(target)}.*", privileges),
                            privilege,
                        )


def _lost_on_routines(here: Grants, there: Grants, schemas: Mapping[str, Sequence[str]]) -> Iterator[_LostRight]:
    for schema, targets in schemas.items():
        for kind, name, privilege in here.routines(schema):
            if not any(
                there.allows(privilege, target) or (kind, name, privilege) in there.routines(target)
                for target in targets
            ):
                routine = f"{kind.upper()} {qualified(targets[0], name)}"
                yield _PrivilegeScope(routine, routine), privilege


def _lost_on_tables(here: Grants, there: Grants, upstream: CutoverUpstream) -> Iterator[_LostRight]:
    for source in sorted(here.tables() & upstream.routed.keys()):
        routed = upstream.routed[source]
        table = _PrivilegeScope(qualified(*routed), qualified(*routed), _OF_TABLES)
        for privilege in _OF_TABLES:
            on_schema = here.allows(privilege, source[0])
            if not on_schema and here.allows(privilege, *source) and not there.allows(privilege, *routed):
                yield table, privilege
        for privilege, column in here.columns(*source):
            if not there.allows(privilege, *routed) and (privilege, column) not in there.columns(*routed):
                yield table, f"{privilege} ({quote(column)})"


def _granting(rights: Iterable[_MissingRight], roles: set[Account], flavor: str) -> Iterator[tuple[str, str]]:
    """The evidence and the command for each account and scope."""
    grouped: dict[tuple[Account, _PrivilegeScope], tuple[dict[str, None], set[str]]] = {}
    for right in rights:
        sources, privileges = grouped.setdefault((right.account, right.scope), ({}, set()))
        sources[right.source] = None
        privileges.add(right.privilege)
    for (account, scope), (sources, privileges) in sorted(grouped.items(), key=lambda item: item[0]):
        listed = _listed(privileges, scope)
        name = account.as_role(flavor) if account in roles else str(account)
        option = " WITH GRANT OPTION" if GRANT_OPTION in privileges else ""
        shown = ", ".join(filter(None, (listed, GRANT_OPTION if option else "")))
        yield (
            f"{', '.join(sources)}: {account} lacks {shown} on {scope.shown}",
            f"GRANT {listed or 'USAGE'} ON {scope.sql} TO {name}{option}",
        )


def _listed(privileges: set[str], scope: _PrivilegeScope) -> str:
    granted = privileges - {GRANT_OPTION}
    return "ALL PRIVILEGES" if scope.every and granted == scope.every - {GRANT_OPTION} else ", ".join(sorted(granted))
