"""Hazard: a schema file leaves the collation open, so that the target chooses another one."""

from __future__ import annotations

from dm_worker.dumper.chunk_writer import schema_text
from pkg.schema_tracker import ServerDefaults


def test_schema_files_name_the_upstreams_collations_where_they_are_asked_for() -> None:
    server = ServerDefaults("mysql", (5, 7, 22))
    table = (
        "CREATE TABLE `t` (\n  `a` text CHARACTER SET latin1\n) ENGINE=MRG_MyISAM DEFAULT CHARSET=utf8mb4 UNION=(`u`)"
    )
    schema = "CREATE DATABASE `d` /*!40100 DEFAULT CHARACTER SET utf8mb4 */"
    head = "/*!40101 SET NAMES utf8mb4*/;\n"
    for created in (table, schema):
        assert schema_text(created, "d", None).decode() == f"{head}{created};\n"
        wanted = created.replace("latin1", "latin1 COLLATE latin1_swedish_ci")
        wanted = wanted.replace("utf8mb4", "utf8mb4 COLLATE utf8mb4_general_ci")
        assert schema_text(created, "d", server).decode() == f"{head}{wanted};\n"
