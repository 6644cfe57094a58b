"""Each command reaches its RPC; a wrong call ends with 1 and never reaches the master."""

from __future__ import annotations

import io
import json

import click
import pytest

from dmctl.cli import main
from dmctl.commands.command import USAGE
from dmctl.runner import commands
from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl


@pytest.mark.parametrize(
    "argv",
    [
        ["start-task"],
        ["start-task", "absent.yaml"],
        ["nonsense"],
        ["query-status", "a", "b"],
        ["query-status", "--nonsense"],
        ["operate-source"],
        ["operate-source", "destroy"],
        ["operate-source", "create"],
        ["operate-source", "stop"],
        ["offline-member", "--name", "x"],
        ["offline-member", "--name", "x", "--master", "--worker"],
        ["operate-leader", "crown"],
        ["binlog", "replace", "t"],
        ["binlog-schema", "list", "t", "d", "t"],
        ["shard-ddl-lock", "unlock", "l", "-a", "maybe"],
        ["start-relay"],
        ["validation", "start"],
        ["config", "task"],
        ["binlog", "skip", "t", "-b", "mysql-bin.000001:abc"],
        ["get-task-config"],
        ["pause-relay"],
    ],
)
def test_wrong_calls_end_with_one_and_never_reach_the_master(
    dmctl: RunDmctl, fake: CannedMaster, argv: list[str]
) -> None:
    code, out, err = dmctl(*argv)
    assert (code, out) == (1, "")
    assert err.startswith("Error: ")
    assert fake.requests == []


@pytest.mark.parametrize(
    ("argv", "method"),
    [
        (["shard-ddl-lock"], "ShowDDLLocks"),
        (["shard-ddl-lock", "task"], "ShowDDLLocks"),
        (["shard-ddl-lock", "unlock", "id", "-o", "s1", "-f"], "UnlockDDLLock"),
        (["show-ddl-locks"], "ShowDDLLocks"),
        (["unlock-ddl-lock", "id"], "UnlockDDLLock"),
        (["binlog", "skip", "t", "-b", "mysql-bin.000001:4"], "HandleError"),
        (["binlog", "replace", "t", "alter table a.b add c int; drop table a.d"], "HandleError"),
        (["handle-error", "t", "skip"], "HandleError"),
        (["get-task-config", "t"], "GetCfg"),
        (["get-task-config", "task", "t"], "GetCfg"),
        (["binlog-schema", "list", "t", "d", "tbl", "-s", "s1"], "OperateSchema"),
        (["operate-schema", "get", "t", "-d", "d", "-t", "tbl", "-s", "s1"], "OperateSchema"),
        (["binlog-schema", "delete", "t", "d", "tbl", "-s", "s1,s2"], "OperateSchema"),
        (["start-relay", "-s", "s1"], "OperateRelay"),
        (["pause-relay", "-s", "s1"], "OperateWorkerRelayTask"),
        (["purge-relay", "-s", "s1", "-f", "mysql-bin.000001"], "PurgeWorkerRelay"),
        (["transfer-source", "s1", "w1"], "TransferSource"),
        (["operate-leader", "evict"], "OperateLeader"),
        (["offline-member", "--worker", "--name", "w1"], "OfflineMember"),
        (["validation", "start", "t"], "StartValidation"),
        (["validation", "stop", "--all-task"], "StopValidation"),
        (["validation", "status", "t"], "GetValidationStatus"),
        (["validation", "show-error", "t"], "GetValidationError"),
        (["validation", "ignore-error", "t", "3"], "OperateValidationError"),
        (["cutover", "end", "t"], "OperateCutover"),
        (["cutover", "reverse", "t"], "OperateCutover"),
        (["validation", "update", "t", "--cutover-binlog-gtid", "g"], "UpdateValidation"),
    ],
)
def test_every_command_reaches_its_rpc(dmctl: RunDmctl, fake: CannedMaster, argv: list[str], method: str) -> None:
    services = master.DESCRIPTOR.services_by_name["Master"].methods_by_name
    kind = services[method].output_type
    module = master if hasattr(master, kind.name) else worker
    fake.answers[method] = getattr(module, kind.name)(result=True, msg="told")
    code, out, _ = dmctl(*argv)
    assert code == 0
    assert json.loads(out)["msg"] == "told"
    assert [name for name, _ in fake.requests] == [method]


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["start-task"], "Usage: dmctl start-task [-s source ...] [--remove-meta] <config-file> [flags]\n"),
        (["check-task"], "Usage: dmctl check-task <config-file> [--error count] [--warn count] [flags]\n"),
        (["query-status", "a", "b"],
         "Usage: dmctl query-status [-s source ...] [task-name | task-file] [--more] [flags]\n"),
        (["purge-relay", "-s", "s1"],
         "Usage: dmctl purge-relay <-s source> <-f filename> [--sub-dir directory] [flags]\n"),
        (["pause-relay", "-s", "s1", "x"], "Usage: dmctl pause-relay <-s source ...> [flags]\n"),
        (["transfer-source", "s1"], "Usage: dmctl transfer-source <source-id> <worker-id> [flags]\n"),
        (["operate-schema", "get"], "Usage: dmctl operate-schema <operate-type> <-s source ...> <task-name | "
         "task-file> <-d database> <-t table> [schema-file] [--flush] [--sync] [flags]\n"),
        (["nonsense"], 'unknown command "nonsense" for "dmctl"'),
        (["binlog", "nonsense"], 'unknown command "nonsense" for "dmctl binlog"'),
        (["binlog", "aaa"], "Available Commands:\n"),
        (["binlog-schema", "x"], "Available Commands:\n"),
        (["config", "hihi", "haha"], "Available Commands:\n"),
        (["any", "command"], 'unknown command "any" for "dmctl"'),
        (["pause-relay"], "must specify at least one source (`-s` / `--source`)"),
        (["start-relay"], "must specify one source (`-s` / `--source`)"),
        (["stop-relay"], "must specify one source (`-s` / `--source`)"),
        (["purge-relay", "-f", "b.000001"], "must specify at least one source (`-s` / `--source`)"),
        (["purge-relay", "-s", "s1,s2", "-f", "b.000001"], "for --filename, can only specify one source per time"),
        (["handle-error", "t", "x"], "invalid operation 'x'"),
        (["operate-source", "x", "f.yaml"], "invalid operate 'x'"),
        (["operate-leader", "x"], "invalid operate 'x'"),
        (["unlock-ddl-lock", "id", "--force-remove=x"], 'invalid argument "x" for "-f, --force-remove" flag: '),
        (["shard-ddl-lock", "unlock", "id", "-f=x"], 'invalid argument "x" for "-f, --force-remove" flag: '),
        (["query-status", "--more=x"], 'invalid argument "x" for "--more" flag: '),
        (["operate-schema", "x", "t", "-s", "s1", "-d", "d", "-t", "t"], "invalid operation 'x'"),
        (["handle-error", "t", "skip", "-b", "b.000001:abc"],
         "invalid --binlog-pos b.000001:abc in handle-error operation: "),
        (["binlog-schema", "update", "t", "d", "t", "-s", "s1", "--from-source", "--from-target"],
         "from-source and from-target can not be used together"),
        (["binlog-schema", "update", "t", "d", "t", "f.sql", "-s", "s1", "--from-source"],
         "can not set schema-file when use from-source"),
        (["binlog-schema", "list", "t", "d", "t"], "must specify at least one source"),
        (["binlog", "skip", "t", "-b", "mysql-bin.000001:abc"], "the pos should be digital"),
        (["binlog", "replace", "t", "alter table `x"], "invalid sql"),
        (["start-task", "absent.yaml"], "error in get file content"),
    ],
)  # fmt: skip
def test_wrong_calls_have_the_strings_that_scripts_look_for(dmctl: RunDmctl, argv: list[str], line: str) -> None:
    _, _, err = dmctl(*argv)
    assert line in err


@pytest.mark.parametrize("argv", [["start-task"], ["start-task", "absent.yaml"], ["query-status"]])
def test_a_master_that_cannot_be_reached_is_named_before_any_other_mistake(
    capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    assert main(["--master-addr", "127.0.0.1:1", *argv]) == 1
    assert "can't connect to 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused" in capsys.readouterr().err


def test_an_unknown_command_is_reported_before_any_connection(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--master-addr", "127.0.0.1:1", "any", "command"]) == 1
    told = capsys.readouterr().err
    assert 'unknown command "any" for "dmctl"' in told
    assert "connect" not in told
    assert main(["--master-addr", "127.0.0.1:1", "query-status"]) == 1
    assert "Please check your network connection." in capsys.readouterr().err


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    assert "Available Commands:\n" in capsys.readouterr().out
    assert main(["help", "binlog"]) == 0
    told = capsys.readouterr().out
    assert "Usage: dmctl binlog <command> [flags]\n" in told
    assert "Available Commands:\n" in told


@pytest.mark.parametrize(
    ("argv", "method"), [(["start-task", "-"], "StartTask"), (["operate-source", "create", "-"], "OperateSource")]
)
def test_a_file_can_come_from_standard_input(
    dmctl: RunDmctl, fake: CannedMaster, monkeypatch: pytest.MonkeyPatch, argv: list[str], method: str
) -> None:
    output = master.DESCRIPTOR.services_by_name["Master"].methods_by_name[method].output_type.name
    fake.answers[method] = getattr(master, output)(result=True)
    monkeypatch.setattr("sys.stdin", io.StringIO("name: t\n"))
    assert dmctl(*argv)[0] == 0
    assert "name: t" in str(fake.last(method))


def test_every_command_of_dm_has_its_usage_line() -> None:
    context = click.Context(commands, info_name="dmctl")
    paths = set()
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        assert command is not None
        paths |= {name, *(f"{name} {one}" for one in getattr(command, "commands", {}))}
    assert set(USAGE) <= paths
