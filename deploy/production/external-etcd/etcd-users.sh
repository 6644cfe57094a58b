#!/bin/sh
# etcd-users.sh ENDPOINTS: creates etcd's users `root` and `dm` and has etcd ask for passwords. `dm` may read and write the keys of
# the programs and no others. It can be run again, and then sets the passwords of the files.
# SECRETS is the folder with the files ca, certificate, key, etcd-root-password and etcd-password.
set -eu
secrets="${SECRETS:-/run/secrets}"
export ETCDCTL_API=3 ETCDCTL_ENDPOINTS="$1" ETCDCTL_CACERT="$secrets/ca" ETCDCTL_CERT="$secrets/certificate" ETCDCTL_KEY="$secrets/key"
# In the environment and not on the command line, which other programs can read. Without passwords etcd ignores it.
ETCDCTL_USER="root:$(cat "$secrets/etcd-root-password")"
export ETCDCTL_USER

# user NAME FILE: creates the user, or sets its password.
user() {
  if etcdctl user get "$1" >/dev/null 2>&1; then
    etcdctl user passwd "$1" --interactive=false <"$2"
  else
    etcdctl user add "$1" --interactive=false <"$2"
  fi
}
# role NAME USER: creates the role and grants it.
role() {
  etcdctl role get "$1" >/dev/null 2>&1 || etcdctl role add "$1"
  etcdctl user grant-role "$2" "$1"
}

user root "$secrets/etcd-root-password"
role root root
user dm "$secrets/etcd-password"
role dm dm
etcdctl role grant-permission dm readwrite --prefix=true /dm-master/
etcdctl role grant-permission dm readwrite --prefix=true /dm-worker/
etcdctl auth enable
