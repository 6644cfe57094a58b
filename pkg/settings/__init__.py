"""The shared parts of configuration files: strict YAML and TOML with positions, units, passwords, connections."""
