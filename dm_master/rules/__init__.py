"""What a task's rules do with each upstream table, told before anything runs. The decisions are pure."""
