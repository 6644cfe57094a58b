"""The commented sample files of ``--print-sample-config``: links to those in ``configs/``."""
