"""From the bytes of a server or a file to events."""
