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
