"""The page about a search, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.pairs import Coverage
from tests.fuzz.search import Finding, Tally

_MISSING = 12


def page(tally: Tally, coverage: Coverage) -> str:
    """What was run, which pairs are covered, what was refused, and what was found."""
    minutes = max(tally.seconds / 60, 1e-9)
    known = sorted({finding.hole for finding in tally.findings if finding.hole and not finding.inherent})
    fresh = [finding for finding in tally.findings if not finding.hole and not finding.inherent]
    inherent = [finding for finding in tally.findings if finding.inherent]
    parts = [
        f"# Search of {tally.pair}, seed {tally.seed}",
        "| | |\n|---|---|",
        "\n".join(
            f"| {name} | {value} |"
            for name, value in (
                ("seconds", f"{tally.seconds:.0f}"),
                ("histories", f"{tally.histories} ({tally.histories / minutes:.0f} a minute), "
                 f"{tally.in_clusters} of which compared in clusters, in {tally.cluster_seconds:.0f} s"),
                ("statements", f"{tally.statements} ({tally.statements / minutes:.0f} a minute), "
                 f"of which the upstream refused {tally.failed}"),
                ("pairs of features covered", f"{coverage.covered} of {coverage.total} ({coverage.share:.1%})"),
                ("outcomes", ", ".join(f"{kind} {count}" for kind, count in tally.kinds.most_common())),
                ("known holes found", ", ".join(known) or "none"),
                ("new findings", str(len(fresh))),
            )
        ),
        _section("Refusals", [f"- {code} × {count}: {why}" for (code, why), count in tally.refusals.most_common()]),
        _section("New findings", [_finding(one) for one in fresh]),
        _section("Inherent: a native replica differs in the same way", [_finding(one) for one in inherent]),
        _section(
            "Features in most of the open pairs",
            [f"- {name}: {count}" for name, count in coverage.missing_by_feature().most_common(_MISSING)],
        ),
    ]  # fmt: skip
    # A table's head and rows are one block.
    return "\n\n".join(parts).replace("|---|---|\n\n|", "|---|---|\n|") + "\n"


def _section(title: str, lines: Sequence[str]) -> str:
    return f"## {title}\n\n" + ("\n".join(lines) or "None.")


def _finding(finding: Finding) -> str:
    verdict = finding.verdict
    why = f" ({finding.inherent})" if finding.inherent else ""
    text = verdict.text.split("Workaround")[0][:600]
    return (
        f"### Seed {finding.original.seed}, after {finding.seconds:.0f} s: {verdict.signature}{why}\n\n"
        f"{text}\n\n```sql\n{finding.history.script()}\n```\n"
    )
