# mypy: ignore-errors
"""The model in two versions. Alembic finds out what lies between the server and a version."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

TRICKY = 'it\'s "q" back\\slash 100% `tick` – ä; -- # /* */'
_NAMES = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
}


def model(version: int) -> sa.MetaData:
    meta = sa.MetaData(naming_convention=_NAMES)
    later = version > 1
    name = sa.Column("name", sa.String(80), nullable=False, unique=True, comment=TRICKY if later else None)
    parent = sa.Column("parent_id", sa.ForeignKey("kind.id", ondelete="CASCADE"))
    sa.Table("kind", meta, sa.Column("id", sa.Integer, primary_key=True), name, parent, comment=TRICKY)
    product = sa.Table("product", meta, *_product(later), sa.CheckConstraint("price >= 0", name="positive"))
    sa.Index("by_title", product.c.title, product.c.price, mysql_length={"title": 9} if later else {"title": 5})
    sa.Index("by_price", sa.text("price DESC"), product.c.id)
    order = sa.Table(
        "order",
        meta,
        sa.Column("region", sa.String(3), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("product_id", sa.ForeignKey("product.id", ondelete="SET NULL")),
        sa.Column("memo", mysql.MEDIUMTEXT if later else sa.Text),
        sa.Column("gone", mysql.DATETIME(fsp=3 if later else 6)),
    )
    if later:
        line = (sa.Column("region", sa.String(3)), sa.Column("number", sa.Integer), sa.Column("text", sa.String(9)))
        key = sa.ForeignKeyConstraint(["region", "number"], [order.c.region, order.c.number], ondelete="CASCADE")
        sa.Table("line", meta, sa.Column("id", sa.Integer, primary_key=True), *line, key, sa.Index(None, "text"))
    return meta


def _product(later: bool) -> list[sa.Column]:
    now = sa.text("CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)")
    columns = [
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("title", sa.String(200 if later else 100)),
        sa.Column("made", mysql.YEAR),
        sa.Column("color", sa.Enum("blue", "it's", "red") if later else sa.Enum("red", "it's")),
        sa.Column("price", sa.Numeric(12, 4 if later else 2), nullable=False, server_default="0"),
        sa.Column("shown", sa.String(220), sa.Computed("concat(color, '-', 'ä')", persisted=True)),
        sa.Column("data", sa.JSON),
        sa.Column("active", sa.Boolean, nullable=not later, server_default=sa.true()),
        sa.Column("updated", mysql.DATETIME(fsp=6), server_default=now),
        sa.Column("at", mysql.TIME(fsp=3)),
        sa.Column("flags", mysql.SET("a", "b'c", "d")),
        sa.Column("bits", mysql.BIT(9)),
        sa.Column("ratio", mysql.DOUBLE(unsigned=True)),
        sa.Column("small", mysql.TINYINT(display_width=1)),
        sa.Column("big", mysql.BIGINT(unsigned=True)),
        sa.Column("raw", sa.LargeBinary),
        sa.Column("hash", sa.BINARY(4)),
    ]
    if later:
        columns.append(sa.Column("sku", sa.String(80), server_default=TRICKY, comment=TRICKY))
    return columns
