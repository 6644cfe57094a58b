"""The binary log: positions, GTID sets, events, row decoding, and the replication stream."""
