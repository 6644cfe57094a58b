"""config task|source|master|worker|task-template|export|import, the older get-config, and encrypt."""

from __future__ import annotations

from typing import Any

import click
from google.protobuf.message import Message

from dmctl import configdir, files
from dmctl.command_context import CommandContext
from dmctl.commands import pick
from dmctl.commands.command import CommandGroup, DMCommand
from dmctl.failure import CommandError
from pkg.pb import dmmaster_pb2 as master

_KINDS = {
    "task": master.TaskType,
    "master": master.MasterType,
    "worker": master.WorkerType,
    "source": master.SourceType,
    "task-template": master.TaskTemplateType,
}


@click.group("config", cls=CommandGroup)
def config() -> None:
    """Shows, exports or imports configurations. Passwords are shown as ******."""


def _show(context: CommandContext, kind: str, name: str, path: str) -> None:
    wanted = files.task_name(name) if kind == "task" else name
    answer = context.call("GetCfg", master.GetCfgRequest(type=_KINDS[kind], name=wanted))
    if path and answer.result:
        configdir.write_file(path, answer.cfg)
        answer.cfg = ""
        answer.msg = f"write config to file {path} succeed"
    context.show(answer)


def _kind(kind: str) -> click.Command:
    @click.command(kind, help=f"Shows the configuration of a {kind}, or writes it to a file.", cls=DMCommand)
    @click.argument("name")
    @click.option("-p", "--path", default="", help="Write to this file instead.")
    @click.pass_obj
    def command(context: CommandContext, name: str, path: str) -> None:
        _show(context, kind, name, path)

    return command


for _name in _KINDS:
    config.add_command(_kind(_name))


@config.command("export")
@click.option("-p", "--path", default="configs", help="Folder to write to.")
@click.pass_obj
def export(context: CommandContext, path: str) -> None:
    """Writes the files of all sources and tasks into a folder."""
    tasks = _answer(context, "ListTaskConfigs").taskConfigs
    sources = _answer(context, "ListSourceConfigs").sourceConfigs
    configdir.export(path, dict(tasks), dict(sources))
    context.print(f"export configs to directory `{path}` succeed")


def _answer(context: CommandContext, method: str) -> Any:
    from google.protobuf import empty_pb2

    answer = context.call(method, empty_pb2.Empty())
    if not answer.result:
        raise CommandError(answer.msg)
    return answer


@config.command("import")
@click.option("-p", "--path", default="configs", help="Folder written by config export.")
@click.pass_obj
def import_(context: CommandContext, path: str) -> None:
    """Creates the sources and starts the tasks whose files are in a folder."""
    sources, tasks = configdir.read(path)
    for file, text in sources:
        request = master.OperateSourceRequest(op=master.StartSource, config=[text])
        _require(context, "OperateSource", request, f"fail to create source from {file}")
    for file, text in tasks:
        _require(context, "StartTask", master.StartTaskRequest(task=text), f"fail to start task from {file}")
    if configdir.has_relay_workers(path):
        context.print("relay workers are not restored; use start-relay for sources that need a relay")
    context.print(f"import configs from directory `{path}` succeed")


def _require(context: CommandContext, method: str, request: Message, failure: str) -> None:
    """One step of an import; what exists already was imported before."""
    answer = context.call(method, request)
    messages = [answer.msg, *(one.msg for one in answer.sources if not one.result), getattr(answer, "checkResult", "")]
    text = "; ".join(message for message in messages if message)
    if not answer.result and "already exist" not in text:
        raise CommandError(f"{failure}: {text}")


_file = click.option("-f", "--file", "path", default="", help="Write to this file instead.")


@click.command("get-config", cls=DMCommand)
@click.argument("kind", metavar="task|master|worker|source")
@click.argument("name")
@_file
@click.pass_obj
def get_config(context: CommandContext, kind: str, name: str, path: str) -> None:
    """Older spelling of config."""
    _show(context, pick(kind, list(_KINDS), "kind of configuration"), name, path)


@click.command("get-task-config", cls=DMCommand)
@click.argument("arguments", nargs=-1, required=True, metavar="TASK")
@_file
@click.pass_obj
def get_task_config(context: CommandContext, arguments: tuple[str, ...], path: str) -> None:
    """Older spelling of config task."""
    # Some versions of DM took the kind too.
    kind, name = arguments if len(arguments) == 2 else ("task", arguments[0])
    if len(arguments) > 2:
        raise click.UsageError("only one task can be shown at a time")
    _show(context, pick(kind, list(_KINDS), "kind of configuration"), name, path)


@click.command("encrypt", cls=DMCommand)
@click.argument("plaintext")
@click.pass_obj
def encrypt(context: CommandContext, plaintext: str) -> None:
    """Encrypts a password with the cluster's secret key. The result differs each time."""
    answer = context.call("Encrypt", master.EncryptRequest(plaintext=plaintext))
    if not answer.result:
        raise CommandError(answer.msg)
    context.print(answer.ciphertext)
