"""What each key of the configuration files does: one table, for warnings and for docs/configuration.md."""
