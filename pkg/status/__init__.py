"""Texts of a status for operators: `dmctl` and the console of dm-master show the same."""
