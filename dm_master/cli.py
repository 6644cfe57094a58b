"""``dm-master``: flags, signals, exit code."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence

from pkg.config.master import MasterConfig, load_master_config, master_usage, sample_master_config
from pkg.errors import Code, DMError
from pkg.process import log as logging
from pkg.process.signals import on_ending_signals
from pkg.process.version import version_text

log = logging.get_logger("cli")

#: Seconds that a graceful end may take; then the process exits at once.
LONGEST_END = 25.0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs dm-master until a signal ends it; the result is the exit code."""
    try:
        config = load_master_config(sys.argv[1:] if argv is None else argv)
    except DMError as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    text = _text_instead(config)
    if text:
        sys.stdout.write(text)
        return 0
    try:
        logging.setup(level=config.log_level, file=config.log_file, fmt=config.log_format, rotate=config.log_rotate)
    except OSError as exc:
        sys.stderr.write(f"cannot write log-file {config.log_file}: {exc.strerror}\n")
        return 2
    for text in config.warnings():
        log.warning("setting without effect", warning=text)
    return _run(config)


def _text_instead(config: MasterConfig) -> str:
    """The text to print instead of running; empty to run."""
    if config.help:
        return master_usage() + "\n"
    if config.version:
        return version_text()
    return sample_master_config() if config.print_sample_config else ""


def _run(config: MasterConfig) -> int:
    ended = threading.Event()
    on_ending_signals(ended.set)
    # Imported here, so that a flag that only prints a text answers at once.
    from dm_master.server import MasterServer

    server = MasterServer(config, ended)
    try:
        server.start()
    except DMError as exc:
        if ended.is_set():
            log.info("dm-master exits before its start was complete", reason=exc)
            return 0
        log.error("dm-master cannot start", error=exc)
        if config.log_file:
            sys.stderr.write(f"{exc}\n")
        return 2 if exc.kind == Code.MasterTLSConfigNotValid else 1
    ended.wait()
    watchdog = threading.Timer(LONGEST_END, os._exit, (1,))
    watchdog.daemon = True
    watchdog.start()
    server.stop()
    log.info("dm-master exits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
