"""The commented sample files that ``--print-sample-config`` prints: links to those in ``configs/``."""
