# mypy: ignore-errors
from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("shop", "0001_shop"),)
    operations = (
        # Foreign keys point to this column: they are dropped and made again.
        migrations.AlterField("order", "id", models.BigAutoField(primary_key=True)),
        migrations.AlterField("order", "number", models.PositiveBigIntegerField(unique=True)),
        migrations.AlterField("order", "state", models.CharField(max_length=9, default="new")),
        migrations.AlterField("product", "price", models.DecimalField(max_digits=14, decimal_places=2)),
        migrations.AlterField("product", "title", models.CharField(max_length=100, null=True)),
        migrations.RenameField("order", "note", "memo"),
        migrations.AddField("order", "at", models.TimeField(null=True)),
        migrations.AddField("product", "made_in", models.DurationField(null=True)),
        migrations.RemoveField("product", "picture"),
    )
