"""One port for gRPC and plain HTTP/1.1, used by dm-master and dm-worker."""

from pkg.rpc.server.port_server import PortServer
from pkg.rpc.server.routes import HttpRequest, HttpRoutes, json_response
from pkg.tls.server import mutual

__all__ = ["HttpRequest", "HttpRoutes", "PortServer", "json_response", "mutual"]
