"""What every part that talks to a MySQL-protocol server shares: connections, schemas, literals, dialects."""
