"""The console: the cluster in a browser, at ``/`` of the master's port."""
