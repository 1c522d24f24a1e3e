#!/usr/bin/env bash
# Starts or stops a private MariaDB primary with one replica: mysql-replicated.sh
# up|down|kill DIR
#
# A commit of the primary waits until the replica has it (semi-synchronous, AFTER_SYNC, for a day).
# The data is in DIR/mysql-replicated-primary and DIR/mysql-replicated-replica. kill ends the
# primary with SIGKILL. Such a pair cannot be started again.
set -euo pipefail
. "$(dirname "$0")/process.sh"
command=${1:-}
if [ "$command" = kill ]; then
  shift
  set -- up "$@"
fi
arguments "$0" "$@"
primary=mysql-replicated-primary replica=mysql-replicated-replica

# sql NODE STATEMENT: runs the statement on the node.
sql() {
  timeout 10 mariadb --no-defaults --connect-timeout=2 -h"$ADDR" -P"$(cat "$DIR/$1.port")" -ucarillon -pcarillon -e "$2"
}

# run NODE OPTION…: starts the node.
run() {
  local node=$1 port
  shift
  port=$(port "$node")
  if [ ! -d "$DIR/$node" ]; then
    rm -rf "$DIR/$node.new"
    mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$DIR/$node.new" --skip-test-db \
      --auth-root-authentication-method=normal >>"$DIR/$node.log" 2>&1
    mv "$DIR/$node.new" "$DIR/$node"
  fi
  # Each node has the user by itself, so that the replica can connect.
  cat >"$DIR/$node.init" <<-SQL
	SET sql_log_bin=0;
	CREATE USER IF NOT EXISTS carillon@'%' IDENTIFIED BY 'carillon';
	GRANT ALL ON *.* TO carillon@'%';
	SQL
  # The socket's path is relative to the data directory, so that it is short enough for any DIR. A
  # MariaDB that starts deletes the temporary tables of others in the same directory.
  mkdir -p "$DIR/$node-tmp"
  spawn "$node" mariadbd --no-defaults --user="$(id -un)" --datadir="$DIR/$node" --init-file="$DIR/$node.init" \
    --tmpdir="$DIR/$node-tmp" --socket=mysql.sock --pid-file="$DIR/$node.own-pid" --bind-address="$ADDR" --port="$port" --skip-name-resolve \
    --innodb-flush-log-at-trx-commit=1 --innodb-buffer-pool-size=128M --innodb-log-file-size=96M \
    --max-connections=200 --character-set-server=utf8mb4 --default-time-zone=+00:00 \
    --log-bin=binlog --sync-binlog=1 --binlog-format=ROW --log-slave-updates "$@"
  healthy "$node" 60 sql "$node" 'SELECT 1'
}

start_primary() {
  run $primary --server-id=1 --rpl-semi-sync-master-enabled=ON \
    --rpl-semi-sync-master-wait-point=AFTER_SYNC --rpl-semi-sync-master-timeout=86400000
}

start_replica() {
  run $replica --server-id=2 --rpl-semi-sync-slave-enabled=ON --read-only=ON
}

# connected succeeds if the primary waits for the replica.
connected() { sql $primary "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'" | grep -qw 1; }

case $command in
  kill)
    sql $primary "SHOW STATUS LIKE 'Rpl_semi_sync_master_status'" | grep -qw ON ||
      { echo "mysql-replicated: the primary does not wait for the replica" >&2 && exit 1; }
    read -r pid _ <"$DIR/$primary.pid"
    kill -KILL "$pid"
    ;;
  up)
    alive $primary || attempt $primary start_primary $primary
    if ! alive $replica; then
      attempt $replica start_replica $replica
      sql $replica "STOP SLAVE; CHANGE MASTER TO MASTER_HOST='$ADDR', MASTER_PORT=$(cat "$DIR/$primary.port"),
        MASTER_USER='carillon', MASTER_PASSWORD='carillon', MASTER_USE_GTID=slave_pos; START SLAVE"
      healthy $replica 30 connected
    fi
    sql $primary 'CREATE DATABASE IF NOT EXISTS carillon CHARACTER SET utf8mb4'
    export_env mysql-replicated \
      "TEST_MYSQL_PRIMARY_DSN=carillon:carillon@tcp($ADDR:$(cat "$DIR/$primary.port"))/carillon" \
      "TEST_MYSQL_REPLICA_DSN=carillon:carillon@tcp($ADDR:$(cat "$DIR/$replica.port"))/carillon"
    ;;
  down)
    stop $primary
    stop $replica
    rm -f "$DIR"/mysql-replicated{.env,-*.init,-*.own-pid}
    ;;
esac
