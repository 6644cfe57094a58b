"""From the master's answers to what pages show. Pure: templates know no protobuf."""
