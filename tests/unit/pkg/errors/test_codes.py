"""Hazard: an edit of the catalogue changes a code, name, class, scope or level that operators' scripts know."""

from __future__ import annotations

import pickle
from hashlib import sha256

from pkg.errors import Code, DMError, ErrorKind, new

CATALOGUE = [
    kind
    for owner in Code.__mro__
    for kind in vars(owner).values()
    if isinstance(kind, ErrorKind)
]  # fmt: skip


#: Ours: DM has nothing like it.
OWN_CLASSES = {"diff", "cutover"}


def test_each_code_and_name_stands_for_one_error() -> None:
    assert len(CATALOGUE) == len({kind.code for kind in CATALOGUE}) == len({kind.name for kind in CATALOGUE})


def test_our_own_errors_have_codes_that_dm_does_not_use() -> None:
    own = [kind for kind in CATALOGUE if kind.err_class in OWN_CLASSES]
    assert sorted((kind.code, kind.name) for kind in own) == [
        (43101, "DiffSnapshot"),
        (43102, "DiffNoPair"),
        (43103, "DiffTableChanged"),
        (43104, "DiffRefused"),
        (43105, "DiffFailed"),
        (43106, "DiffFiles"),
        (43107, "DiffTableRefused"),
        (43108, "DiffHeldBack"),
        (43201, "CutoverRefused"),
        (43202, "CutoverEnded"),
    ]


def test_catalogue_is_the_list_that_dm_has() -> None:
    listed = sorted((kind for kind in CATALOGUE if kind.err_class not in OWN_CLASSES), key=lambda k: k.code)
    lines = (f"{k.code} {k.name} {k.err_class} {k.scope} {k.level}" for k in listed)
    assert len(listed) == 593
    digest = sha256("\n".join(lines).encode()).hexdigest()
    assert digest == "1467daf3360f41ba0e3e4b4634e56edb86c4ce820d3972b5b09c638f56dc7970"


def test_entry_carries_the_name_of_its_constant() -> None:
    kind = Code.SyncerParseDDL
    assert (kind.code, kind.name, kind.err_class) == (36067, "SyncerParseDDL", "sync-unit")
    assert (kind.scope, kind.level) == ("internal", "high")


def test_kind_of_a_pickled_error_is_still_the_catalogue_s_entry() -> None:
    error = new(Code.DBBadConn, "lost", raw="reset", workaround="Wait.", scope="upstream", retryable=True)
    again: DMError = pickle.loads(pickle.dumps(error))
    assert again.kind is Code.DBBadConn
    assert (again.to_dict(), again.retryable) == (error.to_dict(), True)


def test_position_and_workaround_change_nothing_else() -> None:
    error = new(Code.DBExecuteFailed, "refused", raw="1054", workaround="Wait.", scope="downstream", retryable=True)
    changed = error.at("at (b.000001, 4)").with_workaround("Skip it.")
    assert str(changed) == (
        "[code=10006:class=database:scope=downstream:level=high], Message: refused (at (b.000001, 4)), "
        "RawCause: 1054, Workaround: Skip it."
    )
    assert changed.retryable
    assert changed.kind is Code.DBExecuteFailed


def test_a_servers_text_is_in_the_cause_alone() -> None:
    cause = "Error 1054 (42S22): Unknown column 'x'"
    error = new(Code.DBExecuteFailed, f"the downstream refused a statement: {cause} (startLocation: …)", raw=cause)
    shown = error.to_dict()
    assert (shown["Message"], shown["RawCause"]) == ("the downstream refused a statement (startLocation: …)", cause)
    other = new(Code.DBDriverError, "cannot connect: refused", raw="refused").to_dict()
    assert other["Message"] == "cannot connect: refused"
