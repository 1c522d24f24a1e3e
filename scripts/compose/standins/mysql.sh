#!/bin/bash
# Does what the official image's entrypoint does with compose's variables: creates a data directory,
# a root user with an unknown password, a database and its user.
set -euo pipefail
case ${1:-} in -*) set -- mysqld "$@" ;; esac
datadir=/var/lib/mysql
if [ "$1" = mysqld ]; then
  chown mysql:mysql $datadir /var/run/mysqld
  set -- "$@" --user=mysql --datadir=$datadir
  if [ ! -d $datadir/mysql ]; then
    "$@" --initialize-insecure
    "$@" --skip-networking --socket=/var/run/mysqld/init.sock &
    server=$!
    as_root=(mysql --no-defaults --socket=/var/run/mysqld/init.sock -uroot)
    for _ in $(seq 120); do
      "${as_root[@]}" -e 'SELECT 1' >/dev/null 2>&1 && break
      sleep 0.5
    done
    # shellcheck disable=SC2153
    "${as_root[@]}" <<-SQL
	CREATE DATABASE $MYSQL_DATABASE;
	CREATE USER '$MYSQL_USER'@'%' IDENTIFIED BY '$MYSQL_PASSWORD';
	GRANT ALL ON $MYSQL_DATABASE.* TO '$MYSQL_USER'@'%';
	ALTER USER root@localhost IDENTIFIED BY '$(head -c 16 /dev/urandom | base64)';
	SQL
    kill "$server"
    wait "$server"
  fi
fi
exec "$@"
