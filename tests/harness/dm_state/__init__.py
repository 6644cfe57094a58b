"""What a DM cluster leaves behind: its meta tables in the target."""
