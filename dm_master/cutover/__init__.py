"""Cutover: checks whether applications can move from the upstreams to the target, and ends the task with a
certificate."""
