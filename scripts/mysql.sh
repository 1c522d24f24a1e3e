#!/usr/bin/env bash
# Starts or stops a private MariaDB with production durability: mysql.sh up|down DIR
#
# Its data is in DIR/mysql. CARILLON_TEST_MYSQL_HOME names a directory with the programs of another version
# of MariaDB or MySQL (scripts/versions/install.sh).
set -euo pipefail
. "$(dirname "$0")/process.sh"
arguments "$0" "$@"

server=mariadbd client=mariadb
options=(--innodb-log-file-size=256M)
home=()
if [ -n "${CARILLON_TEST_MYSQL_HOME:-}" ]; then
  PATH=$CARILLON_TEST_MYSQL_HOME/bin:$PATH
  home=(--basedir="$CARILLON_TEST_MYSQL_HOME/usr")
  if [ ! -e "$CARILLON_TEST_MYSQL_HOME/bin/mariadbd" ]; then
    server=mysqld client=mysql
    options=(--innodb-redo-log-capacity=512M --mysqlx=OFF --secure-file-priv=NULL)
  fi
fi

# initialize DATA: makes the data directory of an empty server.
initialize() {
  if [ $server = mysqld ]; then
    mysqld --no-defaults "${home[@]}" --user="$(id -un)" --datadir="$1" --initialize-insecure
  else
    mariadb-install-db --no-defaults "${home[@]}" --user="$(id -un)" --datadir="$1" --skip-test-db \
      --auth-root-authentication-method=normal
  fi
}

start() {
  local port data=$DIR/mysql
  port=$(port mysql)
  if [ ! -d "$data" ]; then
    rm -rf "$data.new"
    initialize "$data.new" >>"$DIR/mysql.log" 2>&1
    mv "$data.new" "$data"
  fi
  # The user may create databases: each test has its own.
  cat >"$DIR/mysql.init" <<-SQL
	CREATE DATABASE IF NOT EXISTS carillon CHARACTER SET utf8mb4;
	CREATE USER IF NOT EXISTS carillon@'%' IDENTIFIED BY 'carillon';
	GRANT ALL ON *.* TO carillon@'%';
	CREATE USER IF NOT EXISTS carillon_tls@'%' IDENTIFIED BY 'carillon' REQUIRE X509;
	GRANT ALL ON *.* TO carillon_tls@'%';
	SQL
  # The socket's path is relative to the data directory, so that it is short enough for any DIR. A
  # MariaDB that starts deletes the temporary tables of others in the same directory.
  mkdir -p "$DIR/mysql-tmp"
  spawn mysql $server --no-defaults "${home[@]}" --user="$(id -un)" --datadir="$data" --init-file="$DIR/mysql.init" \
    --tmpdir="$DIR/mysql-tmp" --socket=mysql.sock --pid-file="$DIR/mysql.own-pid" --bind-address="$ADDR" --port="$port" --skip-name-resolve \
    --innodb-flush-log-at-trx-commit=1 --innodb-buffer-pool-size=512M "${options[@]}" \
    --ssl-ca="$DIR/tls/ca.pem" --ssl-cert="$DIR/tls/server.pem" --ssl-key="$DIR/tls/server.key" \
    --max-connections=500 --character-set-server=utf8mb4 --default-time-zone=+00:00
  healthy mysql 60 $client --no-defaults -h"$ADDR" -P"$port" -ucarillon -pcarillon carillon -e 'SELECT 1'
}

case $1 in
  up)
    alive mysql || attempt mysql start mysql
    at="carillon@tcp($ADDR:$(cat "$DIR/mysql.port"))/carillon"
    export_env mysql "MYSQL_DSN=carillon:$at" "TEST_MYSQL_TLS_DSN=carillon_tls:$at" "TEST_TLS_DIR=$DIR/tls"
    ;;
  down)
    stop mysql
    rm -f "$DIR/mysql.env" "$DIR/mysql.init" "$DIR/mysql.own-pid"
    ;;
esac
