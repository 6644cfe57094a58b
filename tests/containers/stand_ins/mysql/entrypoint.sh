#!/bin/bash
# Creates the database and its accounts on first start, then becomes the server.
set -euo pipefail
data=/var/lib/mysql
server=(/opt/mysql/bin/mysqld --no-defaults --basedir=/opt/mysql --datadir="$data" --socket=/run/mysqld/mysqld.sock)
as_mysql=(setpriv --reuid=mysql --regid=mysql --clear-groups)
init=()
if [ ! -d "$data/mysql" ]; then
  chown mysql:mysql "$data"
  "${as_mysql[@]}" "${server[@]}" --initialize-insecure
  password="${MYSQL_ROOT_PASSWORD//\\/\\\\}"
  password="${password//\'/\\\'}"
  file=/run/mysqld/accounts.sql
  {
    echo "CREATE USER root@'%' IDENTIFIED WITH mysql_native_password BY '$password';"
    echo "GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;"
    echo "ALTER USER root@localhost IDENTIFIED WITH mysql_native_password BY '$password';"
  } >"$file"
  chown mysql:mysql "$file"
  chmod 600 "$file"
  init=(--init-file="$file")
fi
exec "${as_mysql[@]}" "${server[@]}" "${init[@]}" "$@"
