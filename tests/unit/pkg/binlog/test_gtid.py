"""Hazard: a GTID set loses or gains transactions by the order or form in which its parts come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg import errors
from pkg.binlog.gtid import MariaDBGTIDSet, MySQLGTIDSet, parse_gtid_set
from pkg.errors import Code

SOURCES = [f"{n:08x}-0000-0000-0000-00000000000{n}" for n in range(1, 4)]
#: Sources, and tags of them: what has transaction numbers of its own.
NAMES = [*SOURCES, f"{SOURCES[0]}:blue", f"{SOURCES[0]}:_1", f"{SOURCES[2]}:blue"]
members = st.sets(st.tuples(st.sampled_from(NAMES), st.integers(1, 40)))


def _of(gtids: set[tuple[str, int]]) -> MySQLGTIDSet:
    return MySQLGTIDSet(",".join(f"{source}:{number}" for source, number in gtids))


def _members(gtids: MySQLGTIDSet) -> set[tuple[str, int]]:
    found = set()
    for part in filter(None, str(gtids).split(",")):
        source, *fields = part.split(":")
        name = source
        for field in fields:
            if not field[0].isdigit():
                name = f"{source}:{field}"
                continue
            first, _, last = field.partition("-")
            found |= {(name, n) for n in range(int(first), int(last or first) + 1)}
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
    [
        *("x", SOURCES[0], f"{SOURCES[0]}:", f"{SOURCES[0]}:0", f"{SOURCES[0]}:5-4", f"{SOURCES[0]}:1--2", "0-1-1"),
        *(f"{SOURCES[0]}:{tagged}" for tagged in ("blue", "1:blue", "blue:red:1", "1a:1", "a-b:1", f"{'a' * 33}:1")),
    ],
)
def test_bad_mysql_text_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(errors.DMError) as caught:
        MySQLGTIDSet(text)
    assert caught.value.kind is Code.BinlogDecodeMySQLGTIDSet
    assert text in caught.value.message


#: PREVIOUS_GTIDS of a MySQL 8.4.8, and what that server shows.
RECORDED = (
    "01040000000000014ed8c12ce74911f1a53702fc00000001000100000000000000010000000000000004000000000000004ed8c12ce74911f1a5"
    "3702fc0000000102610100000000000000010000000000000002000000000000004ed8c12ce74911f1a53702fc000000010c6d795f7461670100"
    "00000000000001000000000000000300000000000000ffffffff80807f0100fec0ffee12ab99027a01000000000000002c010000000000002d01"
    "000000000000"
)
SHOWN = "4ed8c12c-e749-11f1-a537-02fc00000001:1-3:a:1:my_tag:1-2,\nffffffff-8080-7f01-00fe-c0ffee12ab99:z:300"


def test_a_set_with_tags_reads_as_its_server_shows_it() -> None:
    found = MySQLGTIDSet.decode(bytes.fromhex(RECORDED))
    assert str(found) == SHOWN.replace("\n", "")
    assert MySQLGTIDSet(SHOWN.upper()) == found
    assert found.encode().hex() == RECORDED


@pytest.mark.parametrize(
    "raw", [bytes(7) + b"\x02", bytes.fromhex(RECORDED.replace("0c6d795f746167", "0c6d792f746167"))]
)
def test_bytes_of_an_unknown_form_are_refused(raw: bytes) -> None:
    with pytest.raises((ValueError, errors.DMError), match=r"unknown|not a tag"):
        MySQLGTIDSet.decode(raw)


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
