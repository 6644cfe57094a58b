"""TLS of all connections: contexts for clients and for the shared port, made from :class:`SecurityConfig`."""
