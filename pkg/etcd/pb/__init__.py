"""Generated stubs of etcd's API; see proto/etcd and proto/gen.sh."""
