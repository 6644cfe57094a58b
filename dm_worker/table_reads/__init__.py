"""Reads of whole tables: one snapshot over several sessions, chunks by ranges of a key, values and their literals."""
