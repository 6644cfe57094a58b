"""The merge rules of a load, compiled for its tables and compared with the target before the load begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from dm_worker.dumper.file_names import DumpFile
from dm_worker.loader.load_plan import DumpListing
from dm_worker.loader.row_rewriter import RowRules
from dm_worker.loader.schema_files import create_statement
from pkg import errors
from pkg.config.model import SubTaskConfig
from pkg.errors import Code
from pkg.mysql.names import qualified
from pkg.mysql.schema import TableInfo
from pkg.rules.column_mapping import ColumnMapper
from pkg.rules.merge_rules import extract_problems, mapping_problems
from pkg.rules.table_router import TableRouter
from pkg.schema_tracker import ServerDefaults, parse_create_table

UpstreamTable = tuple[str, str]
#: Queries the target for a table's structure; None when there is no such table.
FetchStructure = Callable[[str, str], TableInfo | None]


class LoadRules:
    """Column mapping and extracts of one source. Raises 20046 for a mapping rule that is not valid."""

    def __init__(self, cfg: SubTaskConfig, router: TableRouter) -> None:
        self._cfg = cfg
        self._router = router
        self._mapper = ColumnMapper(cfg.column_mappings, cfg.case_sensitive, "load")
        # A task without such rules has no extra cost: no structure is read, and the target is not queried.
        self._any = bool(cfg.column_mappings) or any(
            route.extract_table or route.extract_schema or route.extract_source for route in cfg.routes
        )

    def compile(self, folder: Path, listing: DumpListing, target: FetchStructure) -> Mapping[UpstreamTable, RowRules]:
        """The rules of each table of the dump that has rules.

        Raises 34011 for a mapping that does not fit its table or whose numbers the target's column can't hold, 34010
        for an extracted column that the upstream has or the target lacks, 20045 for a name without the text to extract,
        34013 for a table without a known structure.
        """
        if not self._any:
            return {}
        files = {(file.schema, file.table): file for file in listing.tables}
        tables = sorted({*files, *((file.schema, file.table) for file in listing.data)})
        found = {table: self._table(folder, table, files.get(table), target) for table in tables}
        return {table: rules for table, rules in found.items() if rules is not None}

    def _table(
        self, folder: Path, table: UpstreamTable, file: DumpFile | None, fetch: FetchStructure
    ) -> RowRules | None:
        extracted = self._router.extracted(*table, self._cfg.source_id)
        if not extracted and not self._mapper.rules_for(*table):
            return None
        target = fetch(*self._router.route(*table))
        names = {column.lower() for column, _ in extracted}
        info = self._structure(folder, table, file, target, names)
        mapping = self._mapper.compile(*table, info.columns)
        kinds = {
            Code.LoadUnitGenTableRouter: extract_problems(info, target, (column for column, _ in extracted)),
            Code.LoadUnitGenColumnMapping: mapping_problems(info, target, mapping) if mapping is not None else [],
        }
        for kind, problems in kinds.items():
            for problem in problems:
                what = f"{qualified(*table)} of source {self._cfg.source_id}: {problem.what}"
                raise errors.new(kind, what, workaround=problem.workaround, scope="downstream")
        return RowRules(
            columns=tuple(column.name for column in info.columns),
            visible=tuple(column.name for column in info.columns if not column.invisible),
            stored=tuple(column.name for column in info.columns if not column.invisible and not column.generated),
            mapping=mapping,
            extracted=extracted,
        )

    def _structure(
        self, folder: Path, table: UpstreamTable, file: DumpFile | None, target: TableInfo | None, extracted: set[str]
    ) -> TableInfo:
        """The upstream's structure, from the dump; without its file, the target's without extracted columns."""
        if file is not None:
            server = ServerDefaults(flavor="mariadb" if self._cfg.flavor == "mariadb" else "mysql")
            return parse_create_table(create_statement(folder, file), file.schema, server).renamed(*table)
        if target is None:
            raise errors.new(
                Code.LoadUnitNoTableFile,
                f"the dump has no structure of {qualified(*table)}, which the task's rules need, and the target table"
                " does not exist",
                workaround="Create the target table, or dump again with the tables' structures.",
            )
        columns = tuple(column for column in target.columns if column.name.lower() not in extracted)
        return TableInfo(*table, columns, charset=target.charset, collation=target.collation)
