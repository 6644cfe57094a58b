"""Compares one table with the tables that merge into it, between sessions that the caller opened."""
