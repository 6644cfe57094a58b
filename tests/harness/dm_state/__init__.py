"""The records that a DM cluster leaves: its meta tables in the target."""
