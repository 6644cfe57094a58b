"""binlog-schema list|update|delete, and the older operate-schema."""

from __future__ import annotations

import click

from dmctl import files
from dmctl.command_context import CommandContext
from dmctl.commands import pick
from dmctl.commands.command import CommandGroup, DMCommand
from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker

_OLDER = {"get": worker.GetSchema, "set": worker.SetSchema, "remove": worker.RemoveSchema}


@click.group("binlog-schema", cls=CommandGroup)
def binlog_schema() -> None:
    """Shows or changes the known structures of tables of a paused task, for the sources given with -s."""


def _request(
    context: CommandContext, op: worker.SchemaOp, task: str, database: str, table: str
) -> master.OperateSchemaRequest:
    return master.OperateSchemaRequest(
        op=op, task=files.task_name(task), sources=context.some_sources(), database=database, table=table
    )


@binlog_schema.command("list")
@click.argument("task")
@click.argument("database")
@click.argument("table")
@click.pass_obj
def list_(context: CommandContext, task: str, database: str, table: str) -> None:
    """Shows a table's known structure."""
    context.run("OperateSchema", _request(context, worker.GetSchema, task, database, table))


@binlog_schema.command("update")
@click.argument("task")
@click.argument("database")
@click.argument("table")
@click.argument("schema_file", required=False)
@click.option("--flush/--no-flush", default=True, help="Write the structure into the checkpoint (always on).")
@click.option("--sync", is_flag=True, help="Also report the structure to the master (optimistic mode).")
@click.option("--from-source", is_flag=True, help="Take the structure from the upstream.")
@click.option("--from-target", is_flag=True, help="Take the structure from the target.")
@click.pass_obj
def update(
    context: CommandContext,
    task: str,
    database: str,
    table: str,
    schema_file: str | None,
    flush: bool,
    sync: bool,
    from_source: bool,
    from_target: bool,
) -> None:
    """Sets a table's known structure, from a file with CREATE TABLE, from the upstream, or from the target."""
    if from_source and from_target:
        raise click.UsageError("from-source and from-target can not be used together")
    if schema_file is not None and (from_source or from_target):
        raise click.UsageError("can not set schema-file when use from-source or from-target")
    if sum((schema_file is not None, from_source, from_target)) != 1:
        raise click.UsageError("exactly one of a schema file, --from-source and --from-target is needed")
    request = _request(context, worker.SetSchema, task, database, table)
    request.schema = files.read_text(schema_file) if schema_file else ""
    request.flush = True
    request.sync = sync
    request.fromSource = from_source
    request.fromTarget = from_target
    context.run("OperateSchema", request)


@binlog_schema.command("delete")
@click.argument("task")
@click.argument("database")
@click.argument("table")
@click.pass_obj
def delete(context: CommandContext, task: str, database: str, table: str) -> None:
    """Forgets a table's known structure."""
    context.run("OperateSchema", _request(context, worker.RemoveSchema, task, database, table))


@click.command("operate-schema", cls=DMCommand)
@click.argument("operation", metavar="get|set|remove")
@click.argument("task")
@click.argument("schema_file", required=False)
@click.option("-d", "--database", required=True)
@click.option("-t", "--table", required=True)
@click.option("--flush", is_flag=True)
@click.option("--sync", is_flag=True)
@click.pass_obj
def operate_schema(
    context: CommandContext,
    operation: str,
    task: str,
    schema_file: str | None,
    database: str,
    table: str,
    flush: bool,
    sync: bool,
) -> None:
    """Older spelling of binlog-schema."""
    request = _request(context, _OLDER[pick(operation, list(_OLDER), "operation")], task, database, table)
    if (operation == "set") != (schema_file is not None):
        raise click.UsageError("set needs a schema file, and only set takes one")
    request.schema = files.read_text(schema_file) if schema_file else ""
    request.flush = flush
    request.sync = sync
    context.run("OperateSchema", request)
