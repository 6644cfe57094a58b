"""Real servers for tests, on free ports, started and stopped by fixtures: MariaDB, MySQL, etcd, Spark."""
