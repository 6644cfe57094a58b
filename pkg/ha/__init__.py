"""Keys and records of the cluster's shared state in etcd. Pure; whoever reads and writes them uses pkg.etcd."""
