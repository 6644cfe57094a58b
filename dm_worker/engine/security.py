"""Whether a Spark cluster may be used: tasks send passwords to it, and everyone who reaches it could run code there.

Spark's start settings decide: `[spark.conf]` of the worker takes precedence over Spark's own ``spark-defaults.conf``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from dm_worker.engine.settings import is_local
from pkg import errors
from pkg.config.worker import WorkerConfig
from pkg.errors import Code
from pkg.process.log import get_logger
from pkg.settings.options import location_of

log = get_logger(__name__)

_AUTHENTICATE, _SECRET = "spark.authenticate", "spark.authenticate.secret"
_CRYPTO, _SSL = "spark.network.crypto.enabled", "spark.ssl.rpc.enabled"
#: Cluster managers that create a secret for each application and give it to the executors.
_MAKE_SECRETS = ("yarn", "k8s://")


def missing_protection(master: str, conf: Mapping[str, str]) -> list[str]:
    """The settings that ``conf`` lacks for a cluster on a shared network; none for the embedded engine. Pure."""
    if is_local(master):
        return []
    found = [] if _on(conf, _AUTHENTICATE) else [f"{_AUTHENTICATE} = true"]
    if not master.startswith(_MAKE_SECRETS) and not conf.get(_SECRET, "").strip():
        found.append(_SECRET)
    if not _on(conf, _CRYPTO) and not _on(conf, _SSL):
        found.append(f"{_CRYPTO} = true")
    return found


def _on(conf: Mapping[str, str], key: str) -> bool:
    return conf.get(key, "").strip().lower() == "true"


def properties(text: str) -> dict[str, str]:
    """The settings of a ``spark-defaults.conf``: lines of key and value, separated by blanks, ``=`` or ``:``. Pure."""
    lines = (line.strip() for line in text.splitlines())
    parted = (re.split(r"\s*[=:\s]\s*", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {key: "".join(rest) for key, *rest in parted}


def spark_defaults() -> dict[str, str]:
    """Spark's own settings on this machine. Raises ``OSError`` for an unreadable file."""
    folder = Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf"))
    path = folder / "spark-defaults.conf"
    return properties(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else {}


def require_protection(config: WorkerConfig) -> None:
    """Raises 40003 for a worker that would use a cluster without authentication and encryption."""
    spark = config.spark
    if not spark.master or is_local(spark.master):
        return
    missing = missing_protection(spark.master, {**spark_defaults(), **spark.conf})
    if not missing:
        return
    if spark.private_network:
        log.warning("the Spark cluster's network must be private", master=spark.master, missing=", ".join(missing))
        return
    raise errors.new(
        Code.WorkerDecodeConfigFromFile,
        f"{location_of(config.config, 'spark.master')}the Spark cluster {spark.master} is used without "
        f"{', '.join(missing)}: anyone who can reach its network could read the passwords of upstream and target, "
        "and run code on executors and on this machine",
        workaround="Set them under [spark.conf], the secret as in the cluster's own configuration (docs/scale-out.md, "
        "'Secrets'). If no one else can reach that network, set private-network = true under [spark].",
    )
