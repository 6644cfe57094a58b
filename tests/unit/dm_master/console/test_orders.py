"""Hazard: a button sends another request than the command line that its page names."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest
from google.protobuf.message_factory import GetMessageClass

from dm_master.console.forms import Form
from dm_master.console.orders import ORDERS, order
from dmctl import cli
from pkg.pb import dmmaster_pb2 as pb
from pkg.status.preview import preview
from tests.harness.canned_master import CannedMaster

#: Fields that only some buttons of an order have.
_MORE = {"unlock": {"action": "exec"}, "stop-relay": {"worker": "w1"}, "start-diff": {"repair": "yes"}}
_VALUES = {"error": "7", "position": "(mysql-bin.000003, 120)", "file": "mysql-bin.000003"}


@pytest.fixture(scope="module")
def canned() -> Iterator[CannedMaster]:
    fake = CannedMaster().start()
    yield fake
    fake.stop()


@pytest.mark.parametrize("more", [False, True], ids=["", "with-options"])
@pytest.mark.parametrize("name", ORDERS)
def test_the_command_of_each_button_s_page_sends_its_request(canned: CannedMaster, name: str, more: bool) -> None:
    fields = {field: _VALUES.get(field, f"a {field}") for field in ORDERS[name][0]}
    made = order(name, Form({key: [value] for key, value in (fields | (_MORE.get(name, {}) if more else {})).items()}))
    assert made is not None
    method, request = made
    described = preview(method, request)
    assert described is not None
    assert described.effects
    output = pb.DESCRIPTOR.services_by_name["Master"].methods_by_name[method].output_type
    canned.answers[method] = GetMessageClass(output)(result=True)  # type: ignore[call-arg]
    command = shlex.split(described.command)
    assert command[0] == "dmctl"
    assert cli.main(["--master-addr", canned.address, *command[1:]]) == 0
    sent = canned.last(method)
    if method == "OperateDiff" and not sent.options.ByteSize():
        sent.ClearField("options")
    assert sent == request
