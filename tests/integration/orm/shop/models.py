# mypy: ignore-errors
"""The shop after all of its migrations."""

from __future__ import annotations

import uuid

from django.db import models


class Category(models.Model):
    name = models.CharField(max_length=100, unique=True)
    parent = models.ForeignKey("self", null=True, on_delete=models.CASCADE)

    class Meta:
        db_table = "categories"


class Product(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    title = models.CharField(max_length=100, null=True)
    price = models.DecimalField(max_digits=14, decimal_places=2)
    data = models.JSONField(default=dict)
    made_in = models.DurationField(null=True)
    created = models.DateTimeField(auto_now_add=True)
    categories = models.ManyToManyField(Category)


class Order(models.Model):
    id = models.BigAutoField(primary_key=True)
    number = models.PositiveBigIntegerField(unique=True)
    state = models.CharField(max_length=9, default="new")
    memo = models.TextField(blank=True)
    address = models.GenericIPAddressField(null=True)
    at = models.TimeField(null=True)


class Item(models.Model):
    order = models.ForeignKey(Order, on_delete=models.CASCADE)
    product = models.ForeignKey(Product, null=True, on_delete=models.SET_NULL)
    quantity = models.IntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["order", "product", "quantity"], name="once"),
            models.CheckConstraint(condition=models.Q(quantity__gt=0), name="some"),
        )
        indexes = (models.Index(fields=["-quantity", "order"], name="by_quantity"),)
