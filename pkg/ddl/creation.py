"""The statement by which a full copy creates a table or schema at the target. Pure."""

from __future__ import annotations

from pkg.ddl.engines import in_innodb
from pkg.ddl.parser import parse
from pkg.ddl.rewrite import TableRewrite, rewrite
from pkg.ddl.target_collations import TargetCollations
from pkg.ddl.target_words import TargetWords, in_target_words
from pkg.ddl.tokens import Dialect


def creation_text(create: str, *, schema: str, flavor: str, route: TableRewrite) -> str:
    """What an upstream of ``flavor`` shows of a table in ``schema``, or of the schema itself, for the target.

    Raises 36067 for a text that is not understood.
    """
    parsed = parse(create, default_schema=schema, flavor=flavor)
    return in_innodb(rewrite(parsed, route), parsed.dialect)


def creation_words(text: str, flavor: str, family: str, collations: TargetCollations) -> TargetWords:
    """What :func:`creation_text` gave of an upstream of ``flavor``, for a target of this family."""
    return in_target_words(text, Dialect.of("", flavor), family, collations=collations)
