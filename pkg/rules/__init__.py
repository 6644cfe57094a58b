"""The rules of a task: which tables take part, the targets of their rows, and which values change. Pure."""
