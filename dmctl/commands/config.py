"""config task|source|master|worker|task-template|export|import, the older get-config, and encrypt."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click
from google.protobuf.message import Message

from dmctl import configdir, files
from dmctl.command_context import CommandContext
from dmctl.commands import pick
from dmctl.commands.command import CommandGroup, DMCommand
from dmctl.commands.task import show_with_report
from dmctl.failure import CommandError
from pkg.errors import DMError
from pkg.pb import dmmaster_pb2 as master

_EXISTS = ("already exist",)
#: The error of start-relay when the relay was started before in the other way: for named workers, or by `enable-relay:
#: true` in the source's file.
_STARTED = ("code=46028:", "code=46030:")
_ACCESS_DENIED = "Access denied"
_WRONG_KEY = (
    " (an encrypted password is taken as it stands if secret-key-path is not the key that it was encrypted with: "
    "docs/from-dm.md)"
)
_Command = TypeVar("_Command", bound=Callable[..., Any])
_KINDS = {
    "task": master.TaskType,
    "master": master.MasterType,
    "worker": master.WorkerType,
    "source": master.SourceType,
    "task-template": master.TaskTemplateType,
}


@click.group("config", cls=CommandGroup)
@click.option("-p", "--path", default=None, help="Same as the flag after the sub-command: file or folder.")
@click.pass_context
def config(ctx: click.Context, path: str | None) -> None:
    """Shows, exports or imports configurations. Passwords are shown as ******."""
    # DM accepts the flag before and after the sub-command.
    if path is not None:
        ctx.default_map = {name: {"path": path} for name in config.commands}


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


def _updatable(kind: str, update: Callable[[CommandContext, str], None]) -> click.Command:
    text = f"Shows the configuration of a {kind}, or replaces it by that of a file while the {kind} does not run."

    @click.command(kind, help=text, cls=DMCommand)
    @click.argument("arguments", nargs=-1, required=True, metavar="NAME | update FILE")
    @click.option("-p", "--path", default="", help="Write to this file instead.")
    @click.pass_obj
    def command(context: CommandContext, arguments: tuple[str, ...], path: str) -> None:
        if len(arguments) == 1:
            _show(context, kind, arguments[0], path)
        elif arguments[0] == "update" and len(arguments) == 2 and not path:
            update(context, arguments[1])
        else:
            raise click.UsageError("give a name, or `update` and a file")

    return command


def _update_task(context: CommandContext, file: str) -> None:
    show_with_report(
        context, context.call("UpdateTask", master.UpdateTaskRequest(task=files.read_task(file))), "checkResult"
    )


def _update_source(context: CommandContext, file: str) -> None:
    request = master.OperateSourceRequest(op=master.UpdateSource, config=[files.read_source(file)])
    context.run("OperateSource", request)


_UPDATES = {"task": _update_task, "source": _update_source}
for _name in _KINDS:
    config.add_command(_updatable(_name, _UPDATES[_name]) if _name in _UPDATES else _kind(_name))


def _folder(text: str) -> Callable[[_Command], _Command]:
    return click.option("-p", "--path", "-d", "--dir", "path", default="configs", help=text)


@config.command("export")
@_folder("Folder to write to.")
@click.pass_obj
def export(context: CommandContext, path: str) -> None:
    """Writes the files of all sources and tasks into a folder. Passwords are ciphertext."""
    tasks = dict(_answer(context, "ListTaskConfigs", _empty()).taskConfigs)
    sources = dict(_answer(context, "ListSourceConfigs", _empty()).sourceConfigs)
    configdir.export(path, tasks, sources, _pulling(context, sorted(sources)) if sources else {})
    hidden = sorted(name for name, text in (*tasks.items(), *sources.items()) if configdir.HIDDEN in text)
    if hidden:
        context.print(
            f"secrets are hidden ({configdir.HIDDEN}) in {', '.join(hidden)}: the cluster has no secret-key-path, or "
            "they are keys of certificates; fill them in before an import"
        )
    context.print(f"export configs to directory `{path}` succeed")


def _pulling(context: CommandContext, sources: list[str]) -> dict[str, list[str]]:
    """The workers that pull relay logs, by source; the worker bound to the source comes first."""
    answer = _answer(context, "QueryStatus", master.QueryStatusListRequest(sources=sources))
    pulling: dict[str, list[str]] = {}
    for one in answer.sources:
        if one.HasField("sourceStatus") and one.sourceStatus.HasField("relayStatus"):
            pulling.setdefault(one.sourceStatus.source, []).append(one.sourceStatus.worker)
    return pulling


def _empty() -> Message:
    from google.protobuf import empty_pb2

    return empty_pb2.Empty()


def _answer(context: CommandContext, method: str, request: Message) -> Any:
    answer = context.call(method, request)
    if not answer.result:
        raise CommandError(answer.msg)
    return answer


@config.command("import")
@_folder("Folder written by config export, of this program or of DM.")
@click.pass_obj
def import_(context: CommandContext, path: str) -> None:
    """Creates the sources, starts their relays and starts the tasks whose files are in a folder."""
    sources, tasks = configdir.read(path)
    pulling = configdir.relay_workers(path)
    _ensure_key(context, [file for file, text in (*sources, *tasks) if configdir.is_sealed(text)])
    done, refused = _Steps(context), []
    for file, _ in sources:
        refused += done.step(partial(_create_source, context, file, pulling))
    for source, workers in pulling.items():
        refused += done.step(partial(_start_relay, context, source, workers))
    for file, _ in tasks:
        refused += done.step(partial(_start_task, context, file))
    if not tasks:
        context.print(f"there are no files in {path}/tasks: no task was started")
    if refused:
        what = f"{len(refused)} of {done.count} steps failed; completed steps stay, and the import can be repeated"
        raise CommandError("\n".join([f"import configs from directory `{path}`: {what}", *refused]))
    context.print(f"import configs from directory `{path}` succeed")


class _Steps:
    """The steps of an import: a refused one does not stop the others."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self.count = 0

    def step(self, work: Callable[[], str]) -> list[str]:
        """Prints the result; returns the reason if the step was refused."""
        self.count += 1
        try:
            self._context.print(work())
        except (CommandError, DMError) as exc:
            return [str(exc)]
        return []


def _create_source(context: CommandContext, file: str, pulling: dict[str, list[str]]) -> str:
    """On a worker that pulled its relay log before: it has the files, and will pull the log again."""
    worker = _usable(context, "", pulling.get(files.source_id(file), []))[:1]
    request = master.OperateSourceRequest(op=master.StartSource, config=[files.read_source(file)])
    request.workerName = worker[0] if worker else ""
    there = _require(context, "OperateSource", request, f"fail to create source from {file}")
    return f"{'left alone' if there else 'created'} the source of {file}{' (it exists already)' if there else ''}"


def _start_task(context: CommandContext, file: str) -> str:
    start = master.StartTaskRequest(task=files.read_task(file))
    there = _require(context, "StartTask", start, f"fail to start task from {file}")
    return f"{'left alone' if there else 'started'} the task of {file}{' (it exists already)' if there else ''}"


def _usable(context: CommandContext, source: str, workers: list[str]) -> list[str]:
    """The ``workers`` that are in the cluster and are either free or bound to ``source``."""
    if not workers:
        return []
    answer = _answer(context, "ListMember", master.ListMemberRequest(worker=True))
    known = {one.name: one for member in answer.members for one in member.worker.workers}
    return [
        name
        for name in workers
        if name in known and known[name].stage != "offline" and known[name].source in ("", source)
    ]


def _start_relay(context: CommandContext, source: str, workers: list[str]) -> str:
    """Starts a relay as at the export; returns the result. Raises CommandError if it can't be started."""
    usable = _usable(context, source, workers)
    relay = master.OperateRelayRequest(op=master.StartRelayV2, source=source, worker=usable)
    started = _require(context, "OperateRelay", relay, f"fail to start the relay of source {source}", _STARTED)
    if started or not usable:
        return f"started the relay of source {source} (pulled by {', '.join(workers)} before)"
    others = sorted(set(workers) - set(usable))
    left_out = f"; left out, because they are offline or serve another source: {', '.join(others)}" if others else ""
    return f"started the relay of source {source} on {', '.join(usable)}{left_out}"


def _ensure_key(context: CommandContext, sealed: list[str]) -> None:
    """Encrypted passwords need the key that encrypted them. Raises CommandError if there is none."""
    if not sealed:
        return
    answer = context.call("Encrypt", master.EncryptRequest(plaintext="-"))
    if not answer.result:
        raise CommandError(
            f"passwords are encrypted in {', '.join(sealed)}, and the cluster has no key to decrypt them; nothing was "
            "changed. Set secret-key-path of dm-master to the key file of the cluster that they come from (DM before "
            "8.0 has a built-in key: docs/from-dm.md), or write the passwords into the files"
        )


def _require(
    context: CommandContext, method: str, request: Message, failure: str, known: tuple[str, ...] = _EXISTS
) -> bool:
    """Runs one step of an import. Returns true if it was not needed, which one of the texts ``known`` in the answer
    shows."""
    answer = context.call(method, request)
    messages = [answer.msg, *(one.msg for one in answer.sources if not one.result), getattr(answer, "checkResult", "")]
    text = "; ".join(message for message in messages if message)
    if not answer.result and not any(one in text for one in known):
        hint = _WRONG_KEY if _ACCESS_DENIED in text else ""
        raise CommandError(f"{failure}: {text}{hint}")
    return not answer.result


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
    # Some versions of DM accepted the kind too.
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
