"""Real servers, a real cluster and writers on this machine, for the demo and the tests."""
