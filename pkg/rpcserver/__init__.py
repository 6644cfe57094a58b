"""One port for gRPC and plain HTTP/1.1, as dm-master and dm-worker offer it."""

from pkg.rpcserver.http import HttpRequest, HttpResponse, HttpRoutes
from pkg.rpcserver.server import PortServer
from pkg.rpcserver.tls import mutual

__all__ = ["HttpRequest", "HttpResponse", "HttpRoutes", "PortServer", "mutual"]
