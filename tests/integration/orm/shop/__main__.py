# mypy: ignore-errors
"""Django's commands for the shop, and ``sell``, which uses its ORM."""

from __future__ import annotations

import sys

import django
import pymysql
from django.conf import settings
from django.core.management import call_command

pymysql.version_info = (2, 2, 7, "final", 0)  # of mysqlclient, whose place it takes
pymysql.install_as_MySQLdb()


def main() -> None:
    port, command, *arguments = sys.argv[1:]
    settings.configure(
        SECRET_KEY="of a test",
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        INSTALLED_APPS=[
            "django.contrib.contenttypes",
            "django.contrib.auth",
            "django.contrib.sessions",
            "django.contrib.admin",
            "tests.integration.orm.shop",
        ],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.mysql",
                "HOST": "127.0.0.1",
                "PORT": port,
                "USER": "root",
                "PASSWORD": "",
                "NAME": "shop",
            }
        },
    )
    django.setup()
    if command == "sell":
        from tests.integration.orm.shop.sales import sell  # models can be imported after the set-up alone

        sell()
    else:
        call_command(command, *arguments, verbosity=0, skip_checks=True)


main()
