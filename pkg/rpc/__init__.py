"""gRPC between the programs: client channels, the JSON of messages, and the shared port (``server``)."""
