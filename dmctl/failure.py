"""The errors that end a command: a wrong call, or a failure before there was an answer to print."""

from __future__ import annotations


class UsageError(Exception):
    """The command was called in the wrong way; the text says what it expects."""


class CommandError(Exception):
    """The command could not be carried out here (a file, the network); the text is for the operator."""
