#!/bin/sh
# Whether the server takes connections; the image's own options are accepted and not needed.
exec mariadb-admin --no-defaults -h 127.0.0.1 -u healthcheck -phealthcheck --silent ping
