#!/bin/bash
# Creates the database and its accounts on first start, then becomes the server.
set -euo pipefail
data=/var/lib/mysql
if [ ! -d "$data/mysql" ]; then
  chown mysql:mysql "$data"
  mariadb-install-db --user=mysql --datadir="$data" --auth-root-authentication-method=normal --skip-test-db >/dev/null
  password="${MARIADB_ROOT_PASSWORD//\\/\\\\}"
  password="${password//\'/\\\'}"
  {
    echo "USE mysql;"
    echo "FLUSH PRIVILEGES;"
    echo "CREATE USER root@'%' IDENTIFIED BY '$password';"
    echo "GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;"
    echo "ALTER USER root@localhost IDENTIFIED BY '$password';"
    for host in localhost 127.0.0.1 ::1; do
      echo "CREATE USER healthcheck@'$host' IDENTIFIED BY 'healthcheck';"
      echo "GRANT USAGE ON *.* TO healthcheck@'$host';"
    done
  } | setpriv --reuid=mysql --regid=mysql --clear-groups mariadbd --bootstrap --skip-networking --skip-log-bin \
    --skip-gtid-strict-mode --datadir="$data"
fi
exec setpriv --reuid=mysql --regid=mysql --clear-groups mariadbd --datadir="$data" "$@"
