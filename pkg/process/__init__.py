"""What a program of ours needs as a process: log, metrics, signals, threads that serve, memory, a folder of its own."""
