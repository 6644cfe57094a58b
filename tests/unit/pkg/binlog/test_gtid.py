"""Hazard: a GTID set loses or gains transactions by the order or form in which its parts come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg import errors
from pkg.binlog.gtid import MariaDBGTIDSet, MySQLGTIDSet, parse_gtid_set
from pkg.errors import Code

SOURCES = [f"{n:08x}-0000-0000-0000-00000000000{n}" for n in range(1, 4)]
members = st.sets(st.tuples(st.sampled_from(SOURCES), st.integers(1, 40)))


def _of(gtids: set[tuple[str, int]]) -> MySQLGTIDSet:
    return MySQLGTIDSet(",".join(f"{source}:{number}" for source, number in gtids))


def _members(gtids: MySQLGTIDSet) -> set[tuple[str, int]]:
    found = set()
    for part in filter(None, str(gtids).split(",")):
        source, *intervals = part.split(":")
        for interval in intervals:
            first, _, last = interval.partition("-")
            found |= {(source, n) for n in range(int(first), int(last or first) + 1)}
    return found


@given(members, members)
def test_operations_agree_with_python_sets(one: set[tuple[str, int]], other: set[tuple[str, int]]) -> None:
    a, b = _of(one), _of(other)
    assert _members(a.union(b)) == one | other
    assert _members(a.subtract(b)) == one - other
    assert a.contains(b) == (one >= other)
    assert (a == b) == (one == other)
    assert bool(a) == bool(one)
    assert _members(a) == one, "an operation changed its operand"


@given(members, st.permutations(range(20)))
def test_order_of_adding_does_not_matter(gtids: set[tuple[str, int]], order: list[int]) -> None:
    listed = sorted(gtids)
    one_by_one = MySQLGTIDSet()
    for i in order:
        for source, number in listed[i::20]:
            one_by_one.add(f"{source}:{number}")
    assert str(one_by_one) == str(_of(gtids))


@given(members)
def test_binary_and_text_forms_keep_everything(gtids: set[tuple[str, int]]) -> None:
    whole = _of(gtids)
    assert MySQLGTIDSet.decode(whole.encode()) == whole
    assert MySQLGTIDSet(str(whole)) == whole
    assert str(MySQLGTIDSet(str(whole))) == str(whole)


@given(members)
def test_torn_binary_form_is_an_error(gtids: set[tuple[str, int]]) -> None:
    with pytest.raises(ValueError):
        MySQLGTIDSet.decode(_of(gtids).encode()[:-1])


def test_copy_does_not_share() -> None:
    first = MySQLGTIDSet(f"{SOURCES[0]}:1-5")
    second = first.copy()
    second.add(f"{SOURCES[0]}:6")
    assert str(first) == f"{SOURCES[0]}:1-5"
    assert str(second) == f"{SOURCES[0]}:1-6"


def test_server_spellings_are_one_set() -> None:
    upper = SOURCES[0].upper()
    bare = SOURCES[0].replace("-", "")
    assert str(MySQLGTIDSet(f" {upper}:3-5:1-2 ,\n{bare}:7")) == f"{SOURCES[0]}:1-5:7"


@pytest.mark.parametrize(
    "text",
    ["x", SOURCES[0], f"{SOURCES[0]}:", f"{SOURCES[0]}:0", f"{SOURCES[0]}:5-4", f"{SOURCES[0]}:1--2", "0-1-1"],
)
def test_bad_mysql_text_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(errors.DMError) as caught:
        MySQLGTIDSet(text)
    assert caught.value.kind is Code.BinlogDecodeMySQLGTIDSet
    assert text in caught.value.message


def test_tagged_gtids_are_refused_by_name() -> None:
    with pytest.raises(errors.DMError, match="tagged"):
        MySQLGTIDSet(f"{SOURCES[0]}:blue:1-5")
    with pytest.raises(errors.DMError, match="tagged"):
        MySQLGTIDSet.decode(bytes(7) + b"\x01")


def test_mariadb_domain_is_one_sequence() -> None:
    gtids = MariaDBGTIDSet("1-2-30,0-1-100,1-3-20")
    assert str(gtids) == "0-1-100,1-2-30"
    assert gtids.contains(MariaDBGTIDSet("1-9-30"))
    assert not gtids.contains(MariaDBGTIDSet("1-2-31"))
    assert not gtids.contains(MariaDBGTIDSet("2-1-1"))
    assert gtids.contains(MariaDBGTIDSet(""))


def test_mariadb_stream_order_beats_numbers() -> None:
    gtids = MariaDBGTIDSet("0-1-100")
    gtids.add("0-2-7")
    assert str(gtids) == "0-2-7"
    assert str(gtids.union(MariaDBGTIDSet("0-1-8,4-4-4"))) == "0-1-8,4-4-4"
    assert str(gtids) == "0-2-7"


@pytest.mark.parametrize("text", ["0-1", "a-b-c", "0-1-2-3", "4294967296-1-1", f"{SOURCES[0]}:1"])
def test_bad_mariadb_text_is_refused(text: str) -> None:
    with pytest.raises(errors.DMError) as caught:
        MariaDBGTIDSet(text)
    assert caught.value.kind is Code.BinlogParseMariaDBGTIDSet


def test_flavor_chooses_the_kind() -> None:
    assert isinstance(parse_gtid_set("", "mysql"), MySQLGTIDSet)
    assert isinstance(parse_gtid_set("", "mariadb"), MariaDBGTIDSet)
    with pytest.raises(errors.DMError) as caught:
        parse_gtid_set("", "oracle")
    assert caught.value.kind is Code.BinlogFlavorNotSupport
