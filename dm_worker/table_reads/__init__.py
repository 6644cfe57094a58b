"""Reads whole tables: one snapshot over several sessions, chunks by key ranges, values and their literals."""
