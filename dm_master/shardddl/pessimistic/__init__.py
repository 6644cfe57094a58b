"""The locks of pessimistic mode: their records, their next steps, and what operators see of them."""
