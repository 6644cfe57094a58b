// etcd for the node: Debian's is older than what Kubernetes needs for watches with initial events.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
