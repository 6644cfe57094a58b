"""``make demo``: a migration to watch. Two sharded upstreams become one table while writers keep changing them.

The demo starts real servers and a real cluster on free loopback ports, drives them with dmctl as an operator would, and
ends with a comparison of every shard with the target. It exits with an error on any difference, and leaves nothing
running (unless ``--keep``).
"""
