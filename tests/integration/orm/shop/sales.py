# mypy: ignore-errors
"""What an application does by the ORM: nested transactions, upserts, cascades, updates by expressions."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal

from django.db import IntegrityError, models, transaction

from tests.integration.orm.shop.models import Category, Item, Order, Product

_TITLES = ("ä€😀", "x'y\\z", "", "a ")


def sell() -> None:
    chance = random.Random(7)
    for number in range(40):
        with transaction.atomic():
            _sell_one(chance, number)
    orders = [Order(number=n, state="bulk") for n in range(30, 90)]
    Order.objects.bulk_create(orders, update_conflicts=True, update_fields=["state"])
    Order.objects.bulk_create([Order(number=n) for n in range(80, 120)], ignore_conflicts=True)
    Order.objects.filter(number__lt=20).update(number=models.F("number") + 1000, memo="moved")
    Order.objects.filter(number__gt=1010).delete()
    Category.objects.filter(parent__isnull=True)[0].delete()
    for product in Product.objects.order_by("id")[:5]:
        product.categories.clear()
        product.delete()
    # The way back of the migrations has no place for these.
    Item.objects.filter(product=None).delete()
    Order.objects.update(state="0")


def _sell_one(chance: random.Random, number: int) -> None:
    product = Product.objects.create(
        title=chance.choice(_TITLES),
        price=Decimal(chance.randrange(10**9)) / 100,
        data={"list": [1, 2.5, None, {"text": "😀"}], "number": number},
        made_in=datetime.timedelta(microseconds=chance.randrange(10**12)),
    )
    names = [f"category {chance.randrange(12)}" for _ in range(3)]
    roots = list(Category.objects.filter(parent__isnull=True)[:2])
    defaults = {"parent": chance.choice([None, *roots])}
    product.categories.set(Category.objects.get_or_create(name=name, defaults=defaults)[0] for name in names)
    try:
        with transaction.atomic():  # a savepoint
            Order.objects.create(number=chance.randrange(60), address="::ffff:1.2.3.4", at=datetime.time(1, 2, 3, 4567))
            if chance.random() < 0.3:
                raise IntegrityError
    except IntegrityError:
        pass  # rolled back to it
    order, _ = Order.objects.update_or_create(number=chance.randrange(60), defaults={"memo": f"sale {number}"})
    Item.objects.get_or_create(order=order, product=product, defaults={"quantity": 1 + number})
