"""The program: ``python -m deploy.demo [--keep] [--target tidb]``."""

from __future__ import annotations

import argparse
import signal
import sys

import deploy.demo
from deploy.demo.environment import Environment
from deploy.demo.screen import Screen
from deploy.demo.script import play
from deploy.local.process import HarnessError, Process
from deploy.local.targets import TARGETS

#: A shell's exit code for a program that a signal ended.
INTERRUPTED, TERMINATED = 130, 143


def main() -> int:
    parser = argparse.ArgumentParser(prog="deploy.demo", description=deploy.demo.__doc__)
    parser.add_argument("--keep", action="store_true", help="leave servers and cluster running at the end")
    parser.add_argument("--target", choices=TARGETS, default=TARGETS[0], help="the kind of server to migrate into")
    arguments = parser.parse_args()
    keep: bool = arguments.keep
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    Process.outlives = keep
    screen = Screen(sys.stdout)
    over = False
    environment: Environment | None = None
    try:
        environment = Environment(screen, arguments.target)
        equal = play(environment, screen, keep=keep)
        over = True
    except HarnessError as exc:
        screen.settle()
        print(f"\ndemo failed: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        screen.settle()
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    finally:
        if environment is not None and not over:
            # A second Ctrl-C must not leave servers running.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            screen.say("  stopping servers and cluster …")
            environment.close()
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
