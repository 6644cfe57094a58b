"""``make demo`` runs a migration to watch: it merges two sharded upstreams into one table while writers change them.

The demo starts real servers and a real cluster on free loopback ports, drives them with dmctl as an operator would, and
compares every shard with the target at the end. It exits with an error on any difference, and ends everything it
started (unless ``--keep``).
"""
