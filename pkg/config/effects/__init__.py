"""The effect of each key of the configuration files: one table, for warnings and for docs/configuration.md."""
