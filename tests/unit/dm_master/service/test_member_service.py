"""Hazard: the console offers to remove a master that the cluster refuses to remove, or hides one that may go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dm_master.service.member_service import MemberService
from pkg.errors import DMError
from pkg.etcd import Member
from pkg.pb import dmmaster_pb2 as pb
from pkg.status.operations import may_remove_master

#: Nothing listens there.
_GONE = "http://127.0.0.1:1"


def _service(removed: list[int], *, external: bool) -> MemberService:
    """The service of master m1, which leads; m2 has stopped."""
    members = [Member(number, f"m{number}", (_GONE,), (_GONE,)) for number in (1, 2)]
    cluster: Any = SimpleNamespace(
        config=SimpleNamespace(name="m1", etcd_endpoints=["http://etcd"] if external else [], security=None),
        etcd=SimpleNamespace(member_list=lambda: members, member_remove=removed.append),
        election=SimpleNamespace(leader=lambda: SimpleNamespace(id="m1", addr="127.0.0.1:1")),
        candidates=lambda: [SimpleNamespace(id=one.name, addr="127.0.0.1:1") for one in members],
    )
    return MemberService(cluster)


@pytest.mark.parametrize("external", [False, True])
def test_a_master_may_be_removed_exactly_where_the_cluster_removes_it(external: bool) -> None:
    removed: list[int] = []
    service = _service(removed, external=external)
    listed = service.list_member(pb.ListMemberRequest(master=True)).members[0].master.masters
    offered, accepted = [], []
    for one in listed:
        assert not one.alive
        offered += [one.name] if may_remove_master(one, "m1") else []
        try:
            service.offline_member(pb.OfflineMemberRequest(type="master", name=one.name))
        except DMError:
            continue
        accepted.append(one.name)
    assert offered == accepted == ([] if external else ["m2"])
    assert removed == ([] if external else [2])
