"""list-member sends DM's request and prints DM's answer."""

from __future__ import annotations

import json

from pkg.pb import dmmaster_pb2 as master
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl


def test_list_member_prints_each_kind(dmctl: RunDmctl, fake: CannedMaster) -> None:
    leader = master.Members(leader=master.ListLeaderMember(name="m1", addr="h:1"))
    fake.answers["ListMember"] = master.ListMemberResponse(result=True, members=[leader])
    code, out, _ = dmctl("list-member", "-l", "--name", "a", "-n", "b,c")
    request = fake.last("ListMember")
    assert (request.leader, request.master, request.worker) == (True, False, False)
    assert list(request.names) == ["a", "b", "c"]
    assert json.loads(out)["members"] == [{"leader": {"msg": "", "name": "m1", "addr": "h:1"}}]
    assert code == 0


def test_offline_member_ends_with_one_when_the_master_refuses(dmctl: RunDmctl, fake: CannedMaster) -> None:
    """Scripts look at the exit code; those that look at the answer still find it."""
    fake.answers["OfflineMember"] = master.OfflineMemberResponse(result=False, msg="no such worker")
    code, out, err = dmctl("offline-member", "--worker", "--name", "x")
    assert (code, err) == (1, "Error: no such worker\n")
    assert json.loads(out) == {"result": False, "msg": "no such worker"}
    fake.answers["OfflineMember"] = master.OfflineMemberResponse(result=True)
    assert dmctl("offline-member", "--worker", "--name", "x")[0] == 0
