"""The shared parts for MySQL-protocol servers: connections, schemas, literals, dialects."""
