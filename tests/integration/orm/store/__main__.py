# mypy: ignore-errors
"""The commands of the store."""

from __future__ import annotations

import datetime
import random
import sys
from decimal import Decimal

import sqlalchemy as sa
from alembic.autogenerate import produce_migrations
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.operations.ops import ModifyTableOps
from sqlalchemy.dialects.mysql import insert

from tests.integration.orm.store.versions import model


def migrate(engine: sa.Engine, version: int) -> None:
    """What ``alembic revision --autogenerate`` finds, and ``alembic upgrade`` executes."""
    with engine.begin() as conn:
        context = MigrationContext.configure(conn, opts={"compare_type": True, "compare_server_default": True})
        operations = Operations(context)
        parts = list(produce_migrations(context, model(version)).upgrade_ops.ops)
        for part in parts:
            for one in part.ops if isinstance(part, ModifyTableOps) else [part]:
                operations.invoke(one)


def sell(engine: sa.Engine, seed: int) -> None:
    chance = random.Random(seed)
    meta = sa.MetaData()
    meta.reflect(engine)
    kind, product, order = (meta.tables[name] for name in ("kind", "product", "order"))
    product.c.data.type = sa.JSON()  # MariaDB shows a text
    with engine.begin() as conn:
        for number in range(6):
            row = insert(kind).values(name=f"kind {number} ä😀")
            conn.execute(row.on_duplicate_key_update(name=row.inserted.name))
        ids = conn.scalars(sa.select(kind.c.id).order_by(kind.c.id)).all()
        conn.execute(kind.update().where(kind.c.id.in_(ids[1:4])).values(parent_id=ids[0]))
        for number in range(20):
            savepoint = conn.begin_nested()
            conn.execute(product.insert().values(_product(chance, number)))
            savepoint.rollback() if number % 5 == 0 else savepoint.commit()
        products = conn.scalars(sa.select(product.c.id)).all()
        orders = [
            {"region": r, "number": n + 10 * seed, "product_id": chance.choice(products)}
            for r in "ab"
            for n in range(20)
        ]
        upsert = insert(order).values(orders)
        conn.execute(upsert.on_duplicate_key_update(product_id=upsert.inserted.product_id, memo="again 😀"))
        conn.execute(
            sa.text("UPDATE product SET data = JSON_SET(data, '$.a[1]', 'neu 😀'), price = price + 1 WHERE id % 3 = 0")
        )
        joined = (
            "UPDATE product p JOIN `order` o ON o.product_id = p.id SET p.small = 5, o.gone = '2024-01-02 03:04:05.678'"
        )
        conn.execute(sa.text(f"{joined} WHERE o.number % 3 = 0"))
        conn.execute(product.delete().where(product.c.id % 7 == 0))
        conn.execute(kind.delete().where(kind.c.id == ids[-1]))


def _product(chance: random.Random, number: int) -> dict[str, object]:
    return {
        "title": chance.choice(["ä€😀", "x'y\\z", "", None]),
        "made": chance.choice([1901, 2155, None]),
        "color": chance.choice(["red", "it's", None]),
        "price": Decimal(chance.randrange(10**6)) / 100,
        "data": {"a": [1, 2.5, None], "text": "😀", "number": number},
        "at": -datetime.timedelta(hours=10, milliseconds=number),
        "flags": {"a", "d"},
        "bits": chance.randrange(512),
        "ratio": chance.random() * 1e300,
        "small": -number,
        "big": 2**64 - 1 - number,
        "raw": bytes(range(256)),
        "hash": b"\x00\xff'\\",
    }


def main() -> None:
    port, command, *arguments = sys.argv[1:]
    engine = sa.create_engine(f"mysql+pymysql://root@127.0.0.1:{port}/shop?charset=utf8mb4")
    if command == "sell":
        sell(engine, int(arguments[0]))
    else:
        migrate(engine, int(command))


main()
