"""Whether the upstream may have tables of the task that its user does not see. Pure.

A server lists only tables on which a user has a privilege. Rows of unlisted tables may be in the target, because the
binlog contains them; these tables are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pkg.mysql.grants import Grants
from pkg.rules.block_allow_list import BlockAllowListFilter
from pkg.rules.model import BlockAllowList

#: A name in a list that is no pattern.
_NAME = re.compile(r"[^~*?\[][^*?\[]*")


def unseen(grants: Grants, lists: BlockAllowList | None, allowed: BlockAllowListFilter, seen: Iterable[str]) -> str:
    """What the user needs SELECT on to see all tables of the task; '' where it sees them. ``seen``: the schemas that
    the server lists."""
    if grants.allows("SELECT"):
        return ", ".join(sorted(name for name in grants.withdrawn_schemas() if allowed.allows(name)))
    rules, found = lists or BlockAllowList(), sorted(seen)
    entries = [(entry.db_name, entry.tbl_name) for entry in rules.do_tables] or [(name, "") for name in rules.do_dbs]
    if not entries:
        return "*"
    needed: list[str] = []
    for schema, table in entries:
        if not _NAME.fullmatch(schema):
            needed.append(schema)  # only a privilege on all schemas includes every schema that a pattern can match
            continue
        exact = (table,) if _NAME.fullmatch(table) else ()
        for name in [one for one in found if one.lower() == schema.lower()] or [schema]:
            if allowed.allows(name, *exact) and not grants.allows("SELECT", name, *exact):
                needed.append(".".join((name, *exact)))
    return ", ".join(dict.fromkeys(needed))
