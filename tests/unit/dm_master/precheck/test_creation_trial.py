"""Hazards: a load stops at a table that the check let pass; a target's answer blames the wrong thing; what a target
changes silently is not reported."""

from __future__ import annotations

import pytest

from dm_master.precheck import creation_trial
from dm_master.precheck.creation_trial import NO_PARTITIONS, TrialAnswer
from pkg.ddl.target_collations import TargetCollations
from pkg.mysql.schema import Column, Index, IndexPart, TableInfo

T = ("d", "t")
KNOWN = ["latin1_bin", "utf8_bin", "utf8_general_ci", "utf8mb4_bin"]
CHILD = """CREATE TABLE `c``d` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `note` text COMMENT 'CONSTRAINT `x` FOREIGN KEY (`y`), COLLATE utf16_bin',
  PRIMARY KEY (`id`),
  FULLTEXT KEY `words` (`note`),
  KEY `p` (`p`),
  CONSTRAINT `c_ibfk_1` FOREIGN KEY (`p`) REFERENCES `p` (`id`) ON DELETE CASCADE,
  CONSTRAINT `c_ibfk_2` FOREIGN KEY (`q`) REFERENCES `q` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci"""


def test_a_temporary_table_goes_without_what_such_tables_cannot_have() -> None:
    text = creation_trial.trial_text(CHILD, "`m`.`x`", temporary=True)
    assert text.startswith("CREATE TEMPORARY TABLE `m`.`x` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n")
    assert "  KEY `p` (`p`)\n) ENGINE" in text
    assert "ibfk" not in text
    assert "COMMENT 'CONSTRAINT `x` FOREIGN KEY (`y`), COLLATE utf16_bin'" in text
    # How far the numbers have come makes no other table of it.
    assert text == creation_trial.trial_text(CHILD.replace("=7", "=8"), "`m`.`x`", temporary=True)


def test_a_prepared_table_stays_whole() -> None:
    for name in ("`c``d`", "`a`.`c``d`", "IF NOT EXISTS `a`.`c``d`"):
        text = creation_trial.trial_text(CHILD.replace("`c``d`", name, 1), "`m`.`x`", temporary=False)
        assert text == CHILD.replace("`c``d`", "`m`.`x`", 1).replace("AUTO_INCREMENT=7 ", "")


def test_fulltext_indexes_are_found_and_left_out() -> None:
    text, names = creation_trial.without_fulltext(CHILD)
    assert names == ["`words`"]
    assert text == CHILD.replace("  FULLTEXT KEY `words` (`note`),\n", "")


@pytest.mark.parametrize(
    ("number", "error", "blamed", "advice"),
    [
        (1273, "Unsupported collation when new collation is enabled: 'latin1_swedish_ci'", "latin1_swedish_ci)", "has"),
        (1064, "the right syntax to use line 3 column 9 near text", "(`note` text", "by hand"),
        (1064, "the right syntax to use near 'text' at line 3", "(`note` text", "by hand"),
        (1101, "BLOB/TEXT/JSON column 'v' can't have a default value", "", "Leave the default out"),
        (1071, "Specified key was too long (4000 bytes)", "", "max-index-length"),
        (8264, "Global Index is needed for index 'k'", "", "leave the partitions out"),
    ],
)
def test_a_refused_table_is_named_with_the_definition_and_what_to_do(
    number: int, error: str, blamed: str, advice: str
) -> None:
    finding = creation_trial.refusal("s1 `a`.`c`", T, CHILD, TrialAnswer(number, error), KNOWN)
    assert (finding.severity, finding.subject) == ("fail", "s1 `a`.`c`")
    assert f"`d`.`t`: Error {number}: {error}" in finding.message
    assert blamed in finding.message
    assert "ignore-tables" in finding.instruction
    assert advice in finding.instruction


def test_what_a_target_has_instead_is_said() -> None:
    finding = creation_trial.refusal("s", T, CHILD, TrialAnswer(1273, "Unknown collation: 'utf8mb3_x_ci'"), KNOWN)
    assert "Of utf8 the target has utf8_bin, utf8_general_ci." in finding.instruction
    assert "write target-collations: {utf8mb3_x_ci: utf8_general_ci} into the task file" in finding.instruction
    finding = creation_trial.refusal("s", T, CHILD, TrialAnswer(1115, "Unknown character set: 'ucs2'"), KNOWN)
    assert "The target has the charsets latin1, utf8, utf8mb4." in finding.instruction


@pytest.mark.parametrize(("type_name", "length", "number"), [("text", 0, 1170), ("text", 9, 0), ("varchar", 0, 0)])
def test_a_key_over_a_whole_text_is_refused_where_mysql_has_to_keep_it(
    type_name: str, length: int, number: int
) -> None:
    key = Index("k", (IndexPart("v", length),), unique=True)
    answer = creation_trial.whole_value_key(TableInfo("a", "t", (Column("v", type_name, type_name),), (key,)))
    assert answer.number == number
    assert ("'v'" in answer.text) == bool(number)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("`a` varchar(9) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin COMMENT 'COLLATE x_y'", 0),
        ("`a` varchar(9) CHARACTER SET latin1 COLLATE latin1_swedish_ci", 1273),
        (") ENGINE=InnoDB DEFAULT CHARSET=ucs2", 1115),
        ("CREATE DATABASE `x` /*!40100 DEFAULT CHARACTER SET latin1 COLLATE latin1_swedish_ci */", 1273),
        ("`a` varchar(9) COMMENT 'it''s CHARSET ucs2'", 0),
    ],
)
def test_names_that_the_target_lacks_are_found_in_definitions(text: str, number: int) -> None:
    assert creation_trial.unknown_collation(text, KNOWN).number == number


def _table(*columns: Column) -> TableInfo:
    return TableInfo("a", "t", columns)


def test_a_collation_that_is_lost_silently_is_reported_once_for_all_tables() -> None:
    swedish = Column("v", "varchar", "varchar(9)", charset="latin1", collation="latin1_swedish_ci")
    three = Column("w", "varchar", "varchar(9)", charset="utf8mb3", collation="utf8mb3_general_ci")
    tables = [("s `a`", _table(swedish, three)), ("s `b`", _table(swedish))]
    (finding,) = creation_trial.lost_collations(tables, TargetCollations.of(KNOWN))
    assert not creation_trial.lost_collations(tables, TargetCollations.of(KNOWN, [("latin1_swedish_ci", "latin1_bin")]))
    assert finding.severity == "warn"
    assert "latin1_swedish_ci" in finding.message
    assert "s `a` (v), s `b` (v)" in finding.message
    assert "Of latin1 the target has latin1_bin." in finding.instruction


def test_changes_are_reported_with_their_tables_and_not_those_without_effect() -> None:
    linear = (8200, "LINEAR HASH is not supported, using non-linear HASH instead")
    width = (1681, "Integer display width is deprecated")
    answers = [(("d", f"t{i}"), TrialAnswer(NO_PARTITIONS, "no partitions", (linear, width))) for i in range(25)]
    (finding,) = creation_trial.changed([*answers, (T, TrialAnswer(warnings=(width,)))])
    assert finding.severity == "warn"
    assert "8200: LINEAR HASH" in finding.message
    assert "`d`.`t19` and 5 more" in finding.message


def test_tables_whose_rows_may_be_too_long_are_named() -> None:
    short = _table(Column("v", "varchar", "varchar(9000)", charset="utf8mb4"), Column("w", "text", "text"))
    long = _table(Column("v", "mediumblob", "mediumblob"))
    limit = 6 << 20
    (finding,) = creation_trial.long_rows([(("d", "short"), short), (("d", "long"), long)], limit)
    assert "`d`.`long`" in finding.message
    assert "short" not in finding.message
    assert creation_trial.long_rows([(("d", "long"), long)], 0) == []
