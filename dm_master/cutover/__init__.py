"""Whether applications may move from the upstreams to the target: checks with evidence."""
