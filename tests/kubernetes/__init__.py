"""The manifests of deploy/kubernetes on a real node: built, started and ended by the tests."""
