"""What a task's rules do with each upstream table, shown before anything runs. The decisions are pure."""
