# mypy: ignore-errors
from __future__ import annotations

import uuid

from django.db import migrations, models


def _fill(apps, _editor):
    product_model, order_model, line_model = (apps.get_model("shop", name) for name in ("Product", "Order", "Line"))
    products = [product_model.objects.create(title=f"old {n}", price=n, picture=bytes([n, 0, 255])) for n in range(20)]
    order_model.objects.bulk_create([order_model(number=n, state=n % 3, note="é" * n) for n in range(200, 240)])
    for order, product in zip(order_model.objects.all(), products * 2, strict=True):
        line_model.objects.create(order=order, product=product, quantity=order.number)


class Migration(migrations.Migration):
    initial = True
    operations = (
        migrations.CreateModel(
            "Category",
            [
                ("id", models.AutoField(primary_key=True)),
                ("name", models.CharField(max_length=100, unique=True)),
                ("parent", models.ForeignKey("shop.category", models.CASCADE, null=True)),
            ],
        ),
        migrations.CreateModel(
            "Product",
            [
                ("id", models.UUIDField(primary_key=True, default=uuid.uuid4)),
                ("title", models.CharField(max_length=255, db_index=True)),
                ("price", models.DecimalField(max_digits=10, decimal_places=2)),
                ("data", models.JSONField(default=dict)),
                ("picture", models.BinaryField(null=True)),
                ("created", models.DateTimeField(auto_now_add=True)),
                ("categories", models.ManyToManyField("shop.category")),
            ],
        ),
        migrations.CreateModel(
            "Order",
            [
                ("id", models.AutoField(primary_key=True)),
                ("number", models.PositiveIntegerField(unique=True)),
                ("state", models.SmallIntegerField(default=0)),
                ("note", models.TextField(blank=True)),
                ("address", models.GenericIPAddressField(null=True)),
            ],
        ),
        migrations.CreateModel(
            "Line",
            [
                ("id", models.AutoField(primary_key=True)),
                ("order", models.ForeignKey("shop.order", models.CASCADE)),
                ("product", models.ForeignKey("shop.product", models.PROTECT)),
                ("quantity", models.IntegerField()),
            ],
            options={"unique_together": {("order", "product")}},
        ),
        migrations.RunPython(_fill, migrations.RunPython.noop),
    )
