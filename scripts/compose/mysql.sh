#!/usr/bin/env bash
# Runs the store's tests on the MySQL version that compose names; all other tests use MariaDB:
# mysql.sh
#
# It needs a Docker engine: one that answers, or the one of up.sh, by in.sh. The server runs in its
# own container, with its data in memory.
set -euo pipefail
cd "$(dirname "$0")/../.."
image=$(sed -n 's/^ *image: \(mysql:.*\)/\1/p' deploy/compose.yaml)
password=$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')
work=$(mktemp -d "${TMPDIR:-/tmp}/carillon-mysql.XXXXXX")
name=carillon-test-$(basename "$work")
trap 'docker rm --force --volumes "$name" >/dev/null 2>&1; rm -rf "$work"' EXIT
chmod 755 "$work"
# Each test creates its own database.
echo "CREATE USER 'test'@'%' IDENTIFIED BY '$password'; GRANT ALL ON *.* TO 'test'@'%';" >"$work/init.sql"
docker run --detach --name "$name" --publish 127.0.0.1::3306 --volume "$work:/init:ro" --tmpfs /var/lib/mysql:size=4g \
  --env MYSQL_DATABASE=carillon --env MYSQL_USER=carillon --env "MYSQL_PASSWORD=$password" --env MYSQL_RANDOM_ROOT_PASSWORD=yes \
  "$image" --skip-name-resolve --max-connections=500 --innodb-buffer-pool-size=1G --init-file=/init/init.sql >/dev/null
for i in $(seq 120); do
  docker exec "$name" mysqladmin ping --protocol=tcp -h127.0.0.1 -utest "-p$password" --silent >/dev/null 2>&1 && break
  [ "$i" != 120 ] || { docker logs --tail 20 "$name" >&2 && exit 1; }
  sleep 1
done
echo "compose/mysql: $(docker exec "$name" mysqld --version)"
CARILLON_TEST_REQUIRE=mysql CARILLON_TEST_MYSQL_DSN="test:$password@tcp($(docker port "$name" 3306/tcp | head -1))/" \
  go test -count=1 -run 'MySQL|Backup|Restore|Snapshot' ./libs/store/sqlstore "$@"
