"""Coordination of the DDL of merged shards between sources: one lock for each task and target table."""
