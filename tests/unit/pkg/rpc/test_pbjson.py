"""Hazard: dmctl's JSON differs from DM's, so golden files and scripts that compare it fail."""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from hypothesis import example, given
from hypothesis import strategies as st

from pkg.pb import dmmaster_pb2 as master
from pkg.pb import dmworker_pb2 as worker
from pkg.rpc.pbjson import _float, marshal_indent, quote, to_json

SUMMARY = """{
    "result": true,
    "msg": "",
    "sources": [
        {
            "result": true,
            "msg": "",
            "sourceStatus": {
                "source": "mysql-01",
                "worker": "worker-1",
                "result": null,
                "relayStatus": null
            },
            "subTaskStatus": [
                {
                    "name": "t",
                    "stage": "Paused",
                    "unit": "Load",
                    "result": {
                        "isCanceled": false,
                        "errors": [
                            {
                                "ErrCode": 10006,
                                "ErrClass": "database",
                                "ErrScope": "downstream",
                                "ErrLevel": "high",
                                "Message": "execute statement failed: a \\u003c b",
                                "RawCause": "Error 1054 (42S22): x",
                                "Workaround": ""
                            }
                        ],
                        "detail": null
                    },
                    "unresolvedDDLLockID": "",
                    "load": {
                        "finishedBytes": "12",
                        "totalBytes": "9007199254740993",
                        "progress": "12.34 %",
                        "metaBinlog": "(mysql-bin.000001, 154)",
                        "metaBinlogGTID": "",
                        "bps": "0"
                    },
                    "validation": null
                }
            ]
        }
    ]
}"""


def test_a_full_status_comes_out_letter_for_letter() -> None:
    error = worker.ProcessError(
        ErrCode=10006,
        ErrClass="database",
        ErrScope="downstream",
        ErrLevel="high",
        Message="execute statement failed: a < b",
        RawCause="Error 1054 (42S22): x",
    )
    load = worker.LoadStatus(
        finishedBytes=12, totalBytes=2**53 + 1, progress="12.34 %", metaBinlog="(mysql-bin.000001, 154)"
    )
    subtask = worker.SubTaskStatus(
        name="t", stage=worker.Paused, unit=worker.Load, result=worker.ProcessResult(errors=[error]), load=load
    )
    source = worker.QueryStatusResponse(
        result=True,
        sourceStatus=worker.SourceStatus(source="mysql-01", worker="worker-1"),
        subTaskStatus=[subtask],
    )
    assert to_json(master.QueryStatusListResponse(result=True, sources=[source])) == SUMMARY


def test_empty_lists_and_maps_open_and_close_on_lines_of_their_own() -> None:
    assert to_json(worker.ShardingGroup(target="t")) == (
        '{\n    "target": "t",\n    "DDLs": [\n    ],\n    "firstLocation": "",\n    "synced": [\n    ],\n'
        '    "unsynced": [\n    ],\n    "heldRows": "0",\n    "waitingDDLs": 0,\n    "rereading": false\n}'
    )
    assert '"taskConfigs": {\n    },' in to_json(master.ListTaskConfigsResponse())


def test_names_that_begin_with_capitals_stay() -> None:
    lock = json.loads(to_json(master.DDLLock(ID="x", DDLs=["a"])))
    assert list(lock)[:7] == ["ID", "task", "mode", "owner", "DDLs", "synced", "unsynced"]


def test_an_unset_choice_prints_nothing_and_an_empty_chosen_text_prints() -> None:
    assert json.loads(to_json(master.Members())) == {}
    assert "msg" not in json.loads(to_json(worker.SubTaskStatus()))
    assert json.loads(to_json(worker.SubTaskStatus(msg="")))["msg"] == ""
    members = json.loads(to_json(master.Members(leader=master.ListLeaderMember(name="m"))))
    assert list(members) == ["leader"]


def test_bytes_are_base64_or_null() -> None:
    answer = json.loads(to_json(master.RegisterWorkerResponse(secretKey=b"\x00\xff")))
    assert base64.b64decode(answer["secretKey"]) == b"\x00\xff"
    assert json.loads(to_json(master.RegisterWorkerResponse()))["secretKey"] is None


def test_an_enum_number_from_a_newer_peer_is_printed_as_number() -> None:
    message = worker.SubTaskStatus()
    message.ParseFromString(b"\x10\x63")
    assert json.loads(to_json(message))["stage"] == 99


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("a<b>&c", '"a\\u003cb\\u003e\\u0026c"'),
        ("line\u2028sep\u2029", '"line\\u2028sep\\u2029"'),
        ('\x01\x1f\t\n\r"\\', '"\\u0001\\u001f\\t\\n\\r\\"\\\\"'),
        ("grün 表 🐬 \x7f", '"grün 表 🐬 \x7f"'),
    ],
)
def test_strings_are_escaped_as_go_does(text: str, quoted: str) -> None:
    assert quote(text) == quoted


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (-2.5, "-2.5"),
        (1e16, "10000000000000000"),
        (1.5e20, "150000000000000000000"),
        (1e21, "1e+21"),
        (1.25e22, "1.25e+22"),
        (1e-6, "0.000001"),
        (1.5e-5, "0.000015"),
        (1e-7, "1e-7"),
        (-1.5e-9, "-1.5e-9"),
        (5e-324, "5e-324"),
        (math.inf, '"Infinity"'),
        (-math.inf, '"-Infinity"'),
        (math.nan, '"NaN"'),
    ],
)
def test_numbers_have_gos_form(value: float, text: str) -> None:
    assert _float(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_reads_back_bit_for_bit(value: float) -> None:
    text = _float(value)
    assert struct.pack("d", float(text)) == struct.pack("d", value)
    assert not text.endswith(".0")


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_int64 = st.integers(-(2**63), 2**63 - 1)
_syncs = st.builds(
    worker.SyncStatus,
    totalEvents=_int64,
    masterBinlog=_texts,
    blockingDDLs=st.lists(_texts, max_size=3),
    unresolvedGroups=st.lists(
        st.builds(worker.ShardingGroup, target=_texts, DDLs=st.lists(_texts, max_size=2)), max_size=2
    ),
    synced=st.booleans(),
    ioTotalBytes=st.integers(0, 2**64 - 1),
)
_dumps = st.builds(worker.DumpStatus, totalTables=_int64, finishedRows=st.floats(allow_nan=True), progress=_texts)
_results = st.builds(worker.ProcessResult, isCanceled=st.booleans(), detail=st.binary(max_size=5))
_statuses = st.one_of(
    st.builds(worker.SubTaskStatus, name=_texts, stage=st.sampled_from(list(worker.Stage.values())), sync=_syncs),
    st.builds(worker.SubTaskStatus, name=_texts, dump=_dumps, result=_results),
    st.builds(worker.SubTaskStatus, msg=_texts),
    st.builds(master.ListTaskConfigsResponse, taskConfigs=st.dictionaries(_texts, _texts, max_size=3)),
)


@example(worker.SubTaskStatus(name="t", dump=worker.DumpStatus(finishedRows=64986925461792192.0)))
@given(_statuses)
def test_any_message_prints_what_protobufs_own_encoder_says(message: Message) -> None:
    """Values against an independent encoder; it differs in what stands for an absent message or empty bytes."""
    # A double may stand there as 24616375858803830: the shortest digits that mean it, and zeros.
    ours: Any = json.loads(to_json(message), parse_int=float)
    theirs = json_format.MessageToDict(message, always_print_fields_with_no_presence=True)
    assert _normal(ours) == _normal(theirs)


def _normal(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _normal(one) for key, one in value.items() if one is not None and (key, one) != ("detail", "")}
    if isinstance(value, list):
        return [_normal(one) for one in value]
    # A large double has several right spellings: it is the number that counts, not its digits.
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


@given(_statuses)
def test_text_is_indented_by_nesting_depth(message: Message) -> None:
    depth = 0
    for line in to_json(message).split("\n"):
        body = line.lstrip(" ")
        depth -= body[:1] in ("}", "]")
        assert not body or len(line) - len(body) == 4 * depth
        depth += body[-1:] in ("{", "[") and not body.endswith(('"{', '"['))
    assert depth == 0


def test_plain_values_have_gos_indented_form() -> None:
    assert marshal_indent({"result": True, "msg": "a<b", "tasks": [], "n": [{"x": 1}]}) == (
        '{\n    "result": true,\n    "msg": "a\\u003cb",\n    "tasks": [],\n    "n": [\n        {\n'
        '            "x": 1\n        }\n    ]\n}'
    )
