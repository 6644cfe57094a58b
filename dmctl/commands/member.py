"""list-member, offline-member, operate-leader."""

from __future__ import annotations

import click

from dmctl.command_context import CommandContext
from dmctl.commands import pick
from dmctl.commands.command import DMCommand
from pkg.pb import dmmaster_pb2 as master

_LEADER_OPERATIONS = {"evict": master.EvictLeaderOp, "cancel-evict": master.CancelEvictLeaderOp}


@click.command("list-member", cls=DMCommand)
@click.option("-l", "--leader", is_flag=True, help="Only the leader.")
@click.option("-m", "--master", "masters", is_flag=True, help="Only masters.")
@click.option("-w", "--worker", "workers", is_flag=True, help="Only workers.")
@click.option("-n", "--name", "names", multiple=True, help="Only members of this name; may be repeated.")
@click.pass_obj
def list_member(context: CommandContext, leader: bool, masters: bool, workers: bool, names: tuple[str, ...]) -> None:
    """Lists the members of the cluster: all kinds, or those that flags select."""
    wanted = [name for text in names for name in text.split(",") if name]
    request = master.ListMemberRequest(leader=leader, master=masters, worker=workers, names=wanted)
    context.run("ListMember", request)


@click.command("offline-member", cls=DMCommand)
@click.option("-m", "--master", "masters", is_flag=True, help="The member is a master.")
@click.option("-w", "--worker", "workers", is_flag=True, help="The member is a worker.")
@click.option("-n", "--name", required=True, help="The member's name.")
@click.pass_obj
def offline_member(context: CommandContext, masters: bool, workers: bool, name: str) -> None:
    """Removes an offline member from the cluster."""
    if masters == workers:
        raise click.UsageError("exactly one of --master and --worker is needed")
    request = master.OfflineMemberRequest(type="master" if masters else "worker", name=name)
    # As in DM, the exit code shows scripts that the member is still there, or never was.
    context.run_or_fail("OfflineMember", request)


@click.command("operate-leader", cls=DMCommand)
@click.argument("operation", metavar="evict|cancel-evict")
@click.pass_obj
def operate_leader(context: CommandContext, operation: str) -> None:
    """Makes the master resign as leader, or lets it campaign again."""
    op = _LEADER_OPERATIONS[pick(operation, list(_LEADER_OPERATIONS), "operate")]
    context.run("OperateLeader", master.OperateLeaderRequest(op=op))
