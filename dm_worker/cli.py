"""The program ``dm-worker``."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

# gRPC's fork handlers are not needed (Spark's JVM is spawned, not forked) and would write to stderr.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from dm_worker.server import WorkerServer
from dm_worker.source.unit_factory import UnitFactory, make_unit
from pkg.config.worker import WorkerConfig, load_worker_config, sample_worker_config, worker_usage
from pkg.errors import Code, DMError
from pkg.process import log as logs
from pkg.process.heap import keep_freed
from pkg.process.log import get_logger
from pkg.process.signals import on_ending_signals
from pkg.process.version import version_text

log = get_logger(__name__)

_BAD_USAGE = 2


def main() -> NoReturn:
    """The console script: ends the process even if a thread of a library or of a stuck unit still runs."""
    code = serve(sys.argv[1:])
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve(argv: Sequence[str], *, units: UnitFactory = make_unit) -> int:
    """Runs the worker until a signal ends it, or prints what the command line asks for. Returns the exit code."""
    try:
        config = load_worker_config(argv)
    except DMError as exc:
        print(exc, file=sys.stderr)
        return _BAD_USAGE
    text = _asked_text(config)
    if text:
        print(text, end="" if text.endswith("\n") else "\n")
        return 0
    try:
        logs.setup(
            level=config.log_level,
            file=config.log_file,
            fmt=config.log_format,
            rotate=config.log_rotate,
            redact_values=config.redact_info_log,
        )
    except OSError as exc:
        print(f"cannot write log-file {config.log_file}: {exc.strerror}", file=sys.stderr)
        return _BAD_USAGE
    for text in config.warnings():
        log.warning("setting without effect", warning=text)
    keep_freed()
    return _run(config, units)


def _asked_text(config: WorkerConfig) -> str:
    """The output of ``-h``, ``-V`` and ``--print-sample-config``; '' when the worker is to run."""
    if config.help:
        return worker_usage()
    if config.version:
        return version_text()
    return sample_worker_config() if config.print_sample_config else ""


def _run(config: WorkerConfig, units: UnitFactory) -> int:
    try:
        server = WorkerServer(config, units=units)
        on_ending_signals(server.stop)
        server.run()
    except DMError as exc:
        log.error("worker ends", error=str(exc))
        if config.log_file:
            print(exc, file=sys.stderr)
        return _BAD_USAGE if exc.kind == Code.WorkerDecodeConfigFromFile else 1
    return 0


if __name__ == "__main__":
    main()
