#!/usr/bin/env bash
# Regenerates the committed gRPC stubs in pkg/pb and pkg/etcd/pb from the protos beside this file.
# Needs grpcio-tools (a development dependency); `make proto` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
"$python" -m grpc_tools.protoc -Iproto --python_out=pkg/pb --pyi_out=pkg/pb --grpc_python_out=pkg/pb \
  proto/dmmaster.proto proto/dmworker.proto
# protoc writes flat imports; ours live in a package.
sed -i -E 's/^import (dm(master|worker)_pb2) as/from pkg.pb import \1 as/' pkg/pb/*_pb2*.py pkg/pb/*.pyi
# etcd's API as we declare it (pkg/etcd/stubs.py gives these stubs to the etcd3 client).
"$python" -m grpc_tools.protoc -Iproto/etcd --python_out=pkg/etcd/pb --pyi_out=pkg/etcd/pb \
  --grpc_python_out=pkg/etcd/pb proto/etcd/kv.proto proto/etcd/rpc.proto
sed -i -E 's/^import ((kv|rpc)_pb2) as/from pkg.etcd.pb import \1 as/' pkg/etcd/pb/*_pb2*.py pkg/etcd/pb/*.pyi
rm pkg/etcd/pb/kv_pb2_grpc.py
