"""What a status says to a person. `dmctl` and the console of dm-master show the same."""
