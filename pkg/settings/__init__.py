"""What every configuration file shares: strict YAML and TOML with positions, units, passwords, connections."""
