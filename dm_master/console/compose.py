"""Composes task and source files from the fields of forms. Pure."""

from __future__ import annotations

from typing import Any, Protocol

import yaml

MODES = ("all", "full", "incremental")
SHARD_MODES = ("", "pessimistic")


class FormFields(Protocol):
    def get(self, name: str) -> str: ...

    def secret(self, name: str) -> str: ...

    def all(self, name: str) -> list[str]: ...


def source_file(form: FormFields) -> str:
    """The source's file. A port that is not a number stays text, so that the check of the file reports it."""
    source: dict[str, Any] = {
        "source-id": form.get("source"),
        "enable-gtid": bool(form.get("gtid")),
        "enable-relay": bool(form.get("relay")),
        "from": _server(form),
    }
    return _yaml(source)


def task_file(form: FormFields) -> str:
    """The task's file.

    ``tables``: a line for each schema or table, ``shop``, ``shop_*`` or ``shop.orders``. ``routes``: lines
    ``shop_*.orders_* > shop.orders`` or ``shop_* > shop``. Raises ``ValueError`` for a line of another form.
    """
    routes = {f"route-{number}": _route(line) for number, line in enumerate(_lines(form.get("routes")), 1)}
    task: dict[str, Any] = {"name": form.get("name"), "task-mode": form.get("mode") or "all"}
    if form.get("shard-mode"):
        task["shard-mode"] = form.get("shard-mode")
    task["target-database"] = _server(form)
    tables = _lines(form.get("tables"))
    instance: dict[str, Any] = {"block-allow-list": "tables"} if tables else {}
    if routes:
        instance["route-rules"] = list(routes)
    if form.get("validation"):
        instance["validator-config-name"] = "validator"
        task["validators"] = {"validator": {"mode": form.get("validation")}}
    task["mysql-instances"] = [{"source-id": source, **instance} for source in form.all("sources")]
    if tables:
        task["block-allow-list"] = {"tables": _list(tables)}
    if routes:
        task["routes"] = routes
    return _yaml(task)


def _server(form: FormFields) -> dict[str, Any]:
    port = form.get("port")
    return {
        "host": form.get("host"),
        "port": int(port) if port.isascii() and port.isdecimal() else port,
        "user": form.get("user"),
        "password": form.secret("password"),
    }


def _list(lines: list[str]) -> dict[str, Any]:
    named = [line.partition(".") for line in lines if "." in line]
    schemas = [line for line in lines if "." not in line]
    found: dict[str, Any] = {}
    if schemas:
        found["do-dbs"] = schemas
    if named:
        found["do-tables"] = [{"db-name": schema, "tbl-name": table} for schema, _, table in named]
        # A list of schemas and one of tables must both accept a table.
        if schemas:
            found["do-tables"] += [{"db-name": schema, "tbl-name": "*"} for schema in schemas]
            found["do-dbs"] = [*schemas, *dict.fromkeys(schema for schema, _, _ in named)]
    return found


def _route(line: str) -> dict[str, str]:
    pattern, arrow, target = (part.strip() for part in line.partition(">"))
    if not arrow or not pattern or not target:
        raise ValueError(f"routes: {line!r} is not like `shop_*.orders_* > shop.orders`")
    schema, _, table = pattern.partition(".")
    target_schema, _, target_table = target.partition(".")
    route = {"schema-pattern": schema, "target-schema": target_schema}
    if table:
        route["table-pattern"] = table
    if target_table:
        route["target-table"] = target_table
    return route


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _yaml(value: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return text
