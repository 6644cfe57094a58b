"""The verdict of a comparison over its sources. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pkg.pb import dmworker_pb2 as worker_pb

#: The states of a table, the one that decides first; as the worker names them.
_BY_WEIGHT = ("different", "not compared", "equal")


def verdict(answers: Sequence[worker_pb.DiffSourceStatus]) -> str:
    """Of all sources together: equal only if each has finished and each of its tables is equal."""
    if not all(answer.result for answer in answers):
        return "not compared"
    if any(answer.stage in ("Running", "Waiting") for answer in answers):
        return "running"
    states = {table.state for answer in answers for table in answer.tables}
    found = next((state for state in _BY_WEIGHT if state in states), "not compared")
    whole = all(answer.stage == "Finished" for answer in answers)
    return "not compared" if found == "equal" and (not whole or states != {"equal"}) else found
