"""Which tables a source compares: each table is compared by one source, and none is left out silently."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm_worker.diff.progress import ComparedState
from dm_worker.diff.state_table import DiffSettings
from dm_worker.diff.tables import CHUNK_BYTES, CHUNK_ROWS, FedTable, led_tables, rows_of_chunks

MERGED, OWN = ("db", "merged"), ("db", "own")
FED = {
    MERGED: (FedTable("s1", "a", "t_1", 10, 100), FedTable("s2", "a", "t_2", 5, 50)),
    OWN: (FedTable("s2", "a", "own", 3, 30),),
}


def test_the_first_source_compares_what_several_feed() -> None:
    settings = DiffSettings(sources=("s1", "s2"))
    (merged,) = led_tables(FED, "s1", settings)
    assert (merged.target, merged.total_rows) == (MERGED, 15)
    assert merged.sources == ("s1: `a`.`t_1`", "s2: `a`.`t_2`")
    assert [table.target for table in led_tables(FED, "s2", settings)] == [OWN]


def test_a_table_with_rows_of_a_source_that_does_not_take_part_is_named() -> None:
    merged, own = led_tables(FED, "s2", DiffSettings(sources=("s2",)))
    assert merged.state is ComparedState.NOT_COMPARED
    assert "source s1" in merged.reason
    assert own.state is ComparedState.PENDING


def test_a_sweep_names_the_tables_that_another_source_has() -> None:
    settings = DiffSettings(sources=("s1", "s2"), rows_per_second=10)
    merged, own = led_tables(FED, "s2", settings)
    assert (merged.target, merged.state) == (MERGED, ComparedState.NOT_COMPARED)
    assert merged.reason == "it is in the sweep of source s1, while validation runs there in mode full"
    assert own.state is ComparedState.PENDING
    (led,) = led_tables(FED, "s1", settings)
    assert (led.target, led.state) == (MERGED, ComparedState.PENDING)


def test_patterns_choose_tables_of_the_target() -> None:
    settings = DiffSettings(sources=("s1", "s2"), tables=("db.o*",))
    assert led_tables(FED, "s1", settings) == []
    assert [table.target for table in led_tables(FED, "s2", settings)] == [OWN]


def test_a_chunk_has_no_more_than_fits_into_memory() -> None:
    """Of 16 shards with rows of 10 MB, a chunk has a few rows in all; of short rows as many as take some seconds."""
    long = [FedTable("s1", "a", f"t_{number}", 1000, 10_000_000_000) for number in range(16)]
    assert rows_of_chunks(long, 0) * 16 * 10_000_000 <= 16 * CHUNK_BYTES
    assert rows_of_chunks([FedTable("s1", "a", "t", 1000, 10_000_000_000)], 0) == 6
    short = [FedTable("s1", "a", "t_1", 3_000_000, 600_000_000), FedTable("s1", "a", "t_2", 1_000_000, 200_000_000)]
    assert rows_of_chunks(short, 0) == CHUNK_ROWS * 3 // 4
    assert rows_of_chunks([FedTable("s1", "a", "t", 0, 0)], 0) >= 1


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from(["s1", "s2", "s3"]), min_size=1), min_size=1),
    st.sets(st.sampled_from(["s1", "s2", "s3"]), min_size=1),
)
def test_each_table_with_a_source_that_takes_part_is_compared_by_one(
    feeding: dict[str, set[str]], sources: set[str]
) -> None:
    fed = {
        ("db", name): tuple(FedTable(one, "a", name, 1, 1) for one in sorted(feeds)) for name, feeds in feeding.items()
    }
    settings = DiffSettings(sources=tuple(sorted(sources)))
    found = [table.target for source in sorted(sources) for table in led_tables(fed, source, settings)]
    assert sorted(found) == sorted(("db", name) for name, feeds in feeding.items() if feeds & sources)
