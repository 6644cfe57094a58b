"""The errors that end a command: wrong usage, or a failure before there was an answer to print."""

from __future__ import annotations


class UsageError(Exception):
    """The command was called incorrectly; the text shows the correct usage."""


class CommandError(Exception):
    """The command failed on this side (a file, the network); the text is for the operator."""
