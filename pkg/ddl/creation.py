"""The statement with which a full copy creates a table or schema at the target. Pure."""

from __future__ import annotations

from pkg.ddl.engines import in_innodb
from pkg.ddl.parser import parse
from pkg.ddl.rewrite import TableRewrite, rewrite
from pkg.ddl.target_collations import TargetCollations
from pkg.ddl.target_words import TargetWords, in_target_words
from pkg.ddl.tokens import Dialect


def creation_text(create: str, *, schema: str, flavor: str, route: TableRewrite) -> str:
    """The upstream's SHOW CREATE output for a table in ``schema``, or for the schema, converted for the target.

    Raises 36067 for text that is not understood.
    """
    parsed = parse(create, default_schema=schema, flavor=flavor)
    return in_innodb(rewrite(parsed, route), parsed.dialect)


def creation_words(text: str, flavor: str, family: str, collations: TargetCollations) -> TargetWords:
    """The output of :func:`creation_text` for an upstream of ``flavor``, for a target of this family."""
    return in_target_words(text, Dialect.of("", flavor), family, collations=collations)
