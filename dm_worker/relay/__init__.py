"""The relay log: an upstream's binlog kept in local files, byte for byte, for all subtasks of its source."""
