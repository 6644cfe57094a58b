"""DM's records of a task in the target's meta schema."""
