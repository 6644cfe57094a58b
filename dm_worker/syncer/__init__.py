"""The syncer: binlog events in, planned batches through Spark, exactly once into the target."""
