"""The page about a search, in Markdown, and the lines about one finding. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.known import SERVER_DEFECTS, described
from tests.fuzz.pairs import Coverage
from tests.fuzz.search import Finding, Tally
from tests.fuzz.verdict import MEANINGS

_MISSING = 12


def page(tally: Tally, coverage: Coverage) -> str:
    """What was run, which pairs are covered, what was refused, and what was found."""
    minutes = max(tally.seconds / 60, 1e-9)
    inherent = [finding for finding in tally.findings if finding.inherent]
    findings = [finding for finding in tally.findings if not finding.inherent]
    parts = [
        f"# Search for silent differences: {tally.pair}",
        "Small random migrations (histories) between two servers, each compared with its upstream. A pair of features"
        " is, for example, a column's type and a statement that one history had together.",
        "| | |\n|---|---|",
        "\n".join(
            f"| {name} | {value} |"
            for name, value in (
                ("upstream and target", " and ".join(tally.versions) or str(tally.pair)),
                ("first seed", str(tally.seed)),
                ("seconds", f"{tally.seconds:.0f}"),
                ("histories", f"{tally.histories} ({tally.histories / minutes:.0f} a minute), "
                 f"{tally.in_clusters} of which compared in clusters, in {tally.cluster_seconds:.0f} s"),
                ("statements", f"{tally.statements} ({tally.statements / minutes:.0f} a minute), "
                 f"of which the upstream refused {tally.failed}"),
                ("pairs of features covered", f"{coverage.covered} of {coverage.total} ({coverage.share:.1%})"),
                ("findings", f"{len(findings)}, and {len(inherent)} that are inherent"),
            )
        ),
        _section("Outcomes", [f"- {kind} × {tally.kinds[kind]}: {what}" for kind, what in MEANINGS.items()]),
        _section("Refusals: why tasks were right to stop",
                 [f"- {code} × {count}: {why}" for (code, why), count in tally.refusals.most_common()]),
        _section("Findings: each needs a look", [_finding(one) for one in findings]),
        _section("Inherent: a native replica of the upstream does no better", [_finding(one) for one in inherent]),
        _section("Not searched: what servers get wrong themselves",
                 [f"- {name}: {what}" for name, what in SERVER_DEFECTS.items()]),
        _section(
            "Features in most of the pairs that are not covered",
            [f"- {name}: {count}" for name, count in coverage.missing_by_feature().most_common(_MISSING)],
        ),
    ]  # fmt: skip
    # A table's head and rows are one block.
    return "\n\n".join(parts).replace("|---|---|\n\n|", "|---|---|\n|") + "\n"


def headline(finding: Finding) -> str:
    """One sentence: which history, what came of it, and what it is taken for."""
    why = taken_for(finding.inherent, finding.hole)
    return f"Seed {finding.original.seed}, after {finding.seconds:.0f} s: {finding.verdict.sentence}; {why}"


def taken_for(inherent: str, hole: str) -> str:
    """What a finding is: inherent, for this reason; like the known hole of this name; or new."""
    return f"inherent: {inherent}" if inherent else described(hole) or "not known yet"


def _section(title: str, lines: Sequence[str]) -> str:
    return f"## {title}\n\n" + ("\n".join(lines) or "None.")


def _finding(finding: Finding) -> str:
    text = finding.verdict.text.split("Workaround")[0][:600]
    return f"### {headline(finding)}\n\n{text}\n\n```sql\n{finding.history.script()}\n```\n"
