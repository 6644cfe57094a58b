"""Hazard: two expressions count as one although a row satisfies only one of them, or as two for their spelling."""

from __future__ import annotations

import pytest

from pkg.rules.expression_filter.meaning import meaning


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # As MySQL shows it, and as MariaDB does.
        ("(`a` > 0)", "`a` > 0"),
        ("(((`a` < 10) and (`b` <> 5)) and (`c` = 1))", "`a` < 10 and `b` <> 5 and `c` = 1"),
        ("((`a` < 10) and ((`id` <> 5) or (`s` in (_utf8mb4'x',_utf8mb4'y\\'z'))))",
         "`a` < 10 and (`id` <> 5 or `s` in ('x','y\\'z'))"),
        ("(`a` > -(1))", "`a` > -1"),
        ("(json_valid(`j`) and (length(`s`) > 1))", "json_valid(`j`) and octet_length(`s`) > 1"),
        ("(`a` not between 1 and 2)", "`a` not between 1 and 2"),
        ("(`d` > _utf8mb4'2020-01-01')", "`d` > '2020-01-01'"),
        ("(regexp_like(`s`,_utf8mb4'^a'))", "REGEXP_LIKE(s, '^a')"),
        ("`Id`", "id"),
        ("'a','b'", "'a' , 'b'"),
        ("`a`,`b`", "a,b"),
        ("(cast(`j` as char(9) array))", "( CAST(j AS CHAR(9) ARRAY) )"),
    ],
)  # fmt: skip
def test_spelling_does_not_matter(one: str, other: str) -> None:
    assert meaning(one) == meaning(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("`a` > 0", "`a` >= 0"),
        ("`a` > 0", "`b` > 0"),
        ("`a` > 0", "`a` > '0'"),
        ("`a` > 1", "`a` > -1"),
        ("(`a` + `b`) * `c` > 0", "`a` + `b` * `c` > 0"),
        ("`a` = 1 and (`b` = 1 or `c` = 1)", "(`a` = 1 and `b` = 1) or `c` = 1"),
        ("`s` = 'x'", "`s` = 'X'"),
        ("`s` = 'x'", "`s` = _binary'x'"),
        ("`s` in ('a','b')", "`s` in ('a,b')"),
        ("`s` in ('a','b')", "`s` in ('a'',''b')"),
        ("not `a` = 1", "`a` = 1"),
        ("lower(`s`)", "upper(`s`)"),
        ("any_one(`s`)", "any_two(`s`)"),
        ("any_one(`s`)", "`any_one`"),
        ("'a','b'", "'b','a'"),
        ("1,2", "12"),
        ("(cast(`j` as char(9) array))", "(cast(`j` as char(8) array))"),
    ],
)
def test_other_conditions_differ(one: str, other: str) -> None:
    assert meaning(one) != meaning(other)
