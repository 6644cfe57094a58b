"""The rules of a task: which tables take part, where their rows go, and what is changed or left out. Pure."""
