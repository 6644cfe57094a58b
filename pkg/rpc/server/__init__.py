"""One port for gRPC and plain HTTP/1.1, as dm-master and dm-worker offer it."""

from pkg.rpc.server.http import HttpRequest, HttpResponse, HttpRoutes
from pkg.rpc.server.port_server import PortServer
from pkg.tls.server import mutual

__all__ = ["HttpRequest", "HttpResponse", "HttpRoutes", "PortServer", "mutual"]
