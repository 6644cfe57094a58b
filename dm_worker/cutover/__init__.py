"""What is written in an upstream after the cutover of a task."""
