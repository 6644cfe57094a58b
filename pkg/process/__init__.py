"""The process of a program: log, metrics, signals, service threads, memory, and a folder of its own."""
