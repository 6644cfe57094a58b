"""Hazard: a key, a constraint or partitions are not seen in a definition, or something else is taken for one."""

from __future__ import annotations

from pkg.ddl.shown_table import ShownCheck, ShownKey, ShownTable, shown_table

_MYSQL = """CREATE TABLE `t` (
  `id` int NOT NULL,
  `check` varchar(9) DEFAULT ') CHECK (1' COMMENT 'KEY `x` (`y`), CHECK (2)',
  `j` json DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `a` (`check`(3),`id`),
  KEY `fx` ((lower(`check`)),`id` DESC) /*!80000 INVISIBLE */,
  FULLTEXT KEY `ft``x` (`check`),
  CONSTRAINT `both_` CHECK (((`id` < 10) and (`check` in (_utf8mb4'x',_utf8mb4')')))),
  CONSTRAINT `fk` FOREIGN KEY (`id`) REFERENCES `p` (`id`) ON DELETE CASCADE,
  CONSTRAINT `off_` CHECK ((`id` > -(1))) /*!80016 NOT ENFORCED */
) ENGINE=InnoDB COMMENT='PARTITION BY HASH (id)'
/*!50100 PARTITION BY RANGE (`id`)
(PARTITION p0 VALUES LESS THAN (10) ENGINE = InnoDB) */"""
_MARIADB = """CREATE TABLE `t` (
  `a` int(11) DEFAULT NULL CHECK (`a` > 0),
  `j` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`j`)),
  CONSTRAINT `CONSTRAINT_1` CHECK (`a` < 10)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
 PARTITION BY HASH (`a`)
PARTITIONS 3"""


def test_a_definition_of_mysql() -> None:
    assert shown_table(_MYSQL) == ShownTable(
        keys=(
            ShownKey("PRIMARY", "", ("`id`",), "PRIMARY KEY (`id`)"),
            ShownKey("a", "", ("`check`(3)", "`id`"), "UNIQUE KEY `a` (`check`(3),`id`)"),
            ShownKey(
                "fx", "", ("(lower(`check`))", "`id` DESC"), "KEY `fx` ((lower(`check`)),`id` DESC)          INVISIBLE"
            ),
            ShownKey("ft`x", "FULLTEXT", ("`check`",), "FULLTEXT KEY `ft``x` (`check`)"),
        ),
        checks=(
            ShownCheck("both_", "(((`id` < 10) and (`check` in (_utf8mb4'x',_utf8mb4')'))))", enforced=True),
            ShownCheck("off_", "((`id` > -(1)))", enforced=False),
        ),
        partitioning="PARTITION BY RANGE (`id`) (PARTITION p0 VALUES LESS THAN (10) ENGINE = InnoDB)",
    )


def test_a_definition_of_mariadb() -> None:
    assert shown_table(_MARIADB) == ShownTable(
        checks=(
            ShownCheck("", "(`a` > 0)", enforced=True),
            ShownCheck("", "(json_valid(`j`))", enforced=True),
            ShownCheck("CONSTRAINT_1", "(`a` < 10)", enforced=True),
        ),
        partitioning="PARTITION BY HASH (`a`)\nPARTITIONS 3",
    )
