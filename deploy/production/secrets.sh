#!/usr/bin/env bash
# secrets.sh NAME…: writes what deploy/production/compose.yml reads into `secrets` beside it: a certificate authority, a
# certificate and key for each NAME, the key under which passwords are encrypted, and etcd's passwords. What exists is kept, so that it can be
# run again for a new NAME. An authority of your own is better: put its certificates here instead.
# The containers' user 10001 owns the keys, which needs root.
set -euo pipefail
cd "$(dirname "$0")"
[ "$#" -gt 0 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
umask 077
mkdir -p secrets
cd secrets
openssl version >/dev/null
if [ ! -e ca.key ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=dm-ca" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" -keyout ca.key -out ca.pem 2>/dev/null
fi
for file in secret-key etcd-password etcd-root-password; do
  [ -e "$file" ] || openssl rand -hex 32 >"$file"
done
for name in "$@"; do
  [ ! -e "$name.pem" ] || continue
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr" 2>/dev/null
  printf 'subjectAltName=DNS:%s,DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n' "$name" >"$name.ext"
  openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 365 -extfile "$name.ext" -out "$name.pem" 2>/dev/null
  rm "$name.csr" "$name.ext"
  chown 10001 "$name.key"
done
chown 10001 secret-key etcd-password etcd-root-password
# The containers' user must pass the folder; the keys are readable for it alone, the authority's for root alone.
chmod 711 .
chmod 644 ./*.pem
