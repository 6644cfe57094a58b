"""Detects writes to an upstream after the cutover of a task."""
