# mypy: ignore-errors
from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("shop", "0002_wider_columns"),)
    operations = (
        migrations.AlterUniqueTogether("line", set()),
        migrations.RenameModel("Line", "Item"),
        migrations.AlterField("item", "product", models.ForeignKey("shop.product", models.SET_NULL, null=True)),
        migrations.AddConstraint("item", models.UniqueConstraint(fields=["order", "product", "quantity"], name="once")),
        migrations.AddConstraint("item", models.CheckConstraint(condition=models.Q(quantity__gt=0), name="some")),
        migrations.AddIndex("item", models.Index(fields=["-quantity", "order"], name="by_quantity")),
        migrations.AlterModelTable("category", "categories"),
    )
