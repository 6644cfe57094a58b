"""Hazard: a table that the user may not see is not listed, so it is missing in the answer, and the verdict is equal."""

from __future__ import annotations

import pytest

from dm_worker.diff.hidden_tables import unseen
from pkg.mysql.grants import Grants
from pkg.rules.block_allow_list import BlockAllowListFilter
from pkg.rules.model import BlockAllowList, TableName

ON_SHOP = "GRANT SELECT ON `shop`.* TO `u`@`%`"
ON_TABLE = "GRANT SELECT ON `shop`.`a` TO `u`@`%`"
ON_ALL = "GRANT SELECT ON *.* TO `u`@`%`"
STREAM = "GRANT REPLICATION SLAVE ON *.* TO `u`@`%`"


@pytest.mark.parametrize(
    ("lists", "grants", "lacking"),
    [
        (BlockAllowList(), [ON_ALL], ""),
        (BlockAllowList(), [ON_SHOP], "*"),
        (BlockAllowList(ignore_dbs=("pay",)), [ON_SHOP], "*"),
        (BlockAllowList(), [ON_ALL, "REVOKE SELECT ON `shop`.* FROM `u`@`%`"], "shop"),
        (BlockAllowList(do_dbs=("pay",)), [ON_ALL, "REVOKE SELECT ON `shop`.* FROM `u`@`%`"], ""),
        (BlockAllowList(do_dbs=("shop",)), [ON_SHOP], ""),
        (BlockAllowList(do_dbs=("Shop",)), [ON_SHOP], ""),
        (BlockAllowList(do_dbs=("shop", "pay")), [ON_SHOP], "pay"),
        (BlockAllowList(do_dbs=("shop",)), [STREAM, ON_TABLE], "shop"),
        (BlockAllowList(do_dbs=("shop*",)), [ON_SHOP], "shop*"),
        (BlockAllowList(do_dbs=("~^shop",)), [ON_SHOP], "~^shop"),
        (BlockAllowList(do_tables=(TableName("shop", "a"),)), [ON_TABLE], ""),
        (BlockAllowList(do_tables=(TableName("shop", "a"), TableName("shop", "b"))), [ON_TABLE], "shop.b"),
        (BlockAllowList(do_tables=(TableName("shop", "*"),)), [ON_TABLE], "shop"),
        (BlockAllowList(do_tables=(TableName("shop", "*"),)), [ON_SHOP], ""),
        (BlockAllowList(do_tables=(TableName("shop", "b"),), ignore_dbs=("shop",)), [ON_TABLE], ""),
    ],
)
def test_missing_privileges_are_named(lists: BlockAllowList, grants: list[str], lacking: str) -> None:
    allowed = BlockAllowListFilter(lists, case_sensitive=False)
    assert unseen(Grants(grants), lists, allowed, ["shop"]) == lacking
