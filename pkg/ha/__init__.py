"""Keys and records of the cluster's shared state in etcd. Pure; callers read and write them with pkg.etcd."""
