#!/usr/bin/env bash
# Starts or stops a private Galera cluster of three MariaDB nodes behind HAProxy: galera.sh
# up|down|wipe DIR [NODE…]
#
# The data of node N is in DIR/galera-N. up also starts again nodes that were killed. down with names
# of nodes stops only those. If no node runs, the one with the latest commit begins the cluster and
# the others join it. As root the nodes run as the user mysql, because rsync's daemon, which brings a
# node's data, refuses to write as root. CARILLON_TEST_MYSQL_HOME names a directory with the programs
# of another version (scripts/versions/install.sh).
set -euo pipefail
. "$(dirname "$0")/process.sh"
wipe=
if [ "${1:-}" = wipe ]; then
  shift
  wipe=1
  set -- down "$@"
fi
arguments "$0" "$@"
nodes=(galera-1 galera-2 galera-3)
home=() provider=/usr/lib/galera/libgalera_smm.so
if [ -n "${CARILLON_TEST_MYSQL_HOME:-}" ]; then
  PATH=$CARILLON_TEST_MYSQL_HOME/bin:$PATH
  home=(--basedir="$CARILLON_TEST_MYSQL_HOME/usr")
  # A node loads this as the user mysql, who may not read what is below root's home.
  copy=$DIR/galera-provider-${CARILLON_TEST_MYSQL_HOME##*/}.so
  [ -f "$copy" ] || { cp "$CARILLON_TEST_MYSQL_HOME$provider" "$copy.new" && chmod 644 "$copy.new" && mv "$copy.new" "$copy"; }
  provider=$copy
fi
user=$(id -un)
[ "$user" != root ] || user=mysql

# sql NODE STATEMENT: runs the statement on the node. Clients from 11.4 on would demand TLS.
sql() {
  timeout 10 mariadb --no-defaults --skip-ssl --connect-timeout=2 -h"$ADDR" -P"$(cat "$DIR/$1.port")" -ucarillon -pcarillon -N -e "$2"
}

# synced NODE [SIZE]: succeeds if the node serves a cluster of at least SIZE nodes. It asks the other
# nodes: for some seconds, a node does not know that it has lost them.
synced() {
  local size
  [ "$(sql "$1" "SET SESSION wsrep_sync_wait=1; SELECT GROUP_CONCAT(VARIABLE_VALUE ORDER BY VARIABLE_NAME) FROM information_schema.GLOBAL_STATUS
    WHERE VARIABLE_NAME IN ('wsrep_local_state','wsrep_ready')" 2>/dev/null)" = 4,ON ] || return 1
  size=$(sql "$1" "SHOW STATUS LIKE 'wsrep_cluster_size'" | cut -f2)
  [ "$size" -ge "${2:-1}" ]
}

# install NODE: creates the data of a new node. It knows no users: those come from the first node.
install() {
  [ ! -d "$DIR/$1" ] || return 0
  rm -rf "$DIR/$1.new"
  mariadb-install-db --no-defaults "${home[@]}" --user="$user" --datadir="$DIR/$1.new" --skip-test-db \
    --auth-root-authentication-method=normal >>"$DIR/$1.log" 2>&1
  mv "$DIR/$1.new" "$DIR/$1"
}

state() { sed -n "s/^$2: *//p" "$DIR/$1/grastate.dat" 2>/dev/null; }

# set_options NODE: sets the options without which MariaDB refuses Galera, also to read a position.
# The socket's path is relative to the data directory, so that it is short enough for any DIR. A
# MariaDB that starts deletes the temporary tables of others in the same directory.
set_options() {
  mkdir -p -m 1777 "$DIR/$1-tmp"
  options=(--no-defaults "${home[@]}" --user="$user" --datadir="$DIR/$1" --tmpdir="$DIR/$1-tmp" --socket=galera.sock
    --wsrep-on=ON --wsrep-provider="$provider" --wsrep-cluster-address="gcomm://$members"
    --binlog-format=ROW --innodb-autoinc-lock-mode=2)
}

# position NODE: prints the last commit of a stopped node, as UUID:NUMBER, or nothing if it is new.
# After a kill only the tables themselves know it. A node that starts without its position receives
# all data from another one, which commits nothing meanwhile.
position() {
  local number at
  number=$(state "$1" seqno)
  case $number in
    '') return 0 ;;
    -1)
      set_options "$1"
      at=$(mariadbd "${options[@]}" --wsrep-recover --pid-file="$DIR/$1/recover.pid" --skip-networking 2>&1 | tee -a "$DIR/$1.log" |
        sed -n 's/.*WSREP: Recovered position: *\([0-9a-f-]*:-\?[0-9]*\).*/\1/p' | tail -n 1)
      [ -n "$at" ] || { echo "galera: the last commit of $1 is unknown: read $DIR/$1.log" >&2 && return 1; }
      echo "$at"
      ;;
    *) echo "$(state "$1" uuid):$number" ;;
  esac
}

# run NODE OPTION…: starts the node. With short time limits of the group a dead node holds up the
# commits of the others for 2 s, not for 6 s. With more than two threads, a node that catches up
# takes the CPU time of all that runs on a host of two cores. What another node has committed
# sometimes waits in vain for a row that a local transaction has, and all commits behind it: it tries
# again after innodb_lock_wait_timeout, whose default is 50 s.
run() {
  local node=$1 at
  shift
  local sql_port group transfer
  sql_port=$(port "$node") group=$(cat "$DIR/$node-group.port") transfer=$(port "$node-transfer")
  at=$(position "$node") || return 1
  [ -z "$at" ] || set -- "$@" --wsrep-start-position="$at"
  set_options "$node"
  spawn "$node" mariadbd "${options[@]}" --pid-file="$DIR/$node/own.pid" --bind-address="$ADDR" --port="$sql_port" --skip-name-resolve \
    --innodb-flush-log-at-trx-commit=1 --innodb-buffer-pool-size=256M --innodb-log-file-size=128M \
    --max-connections=500 --character-set-server=utf8mb4 --default-time-zone=+00:00 \
    --innodb-lock-wait-timeout=3 --wsrep-slave-threads=2 --wsrep-cluster-name=carillon --wsrep-node-name="$node" \
    --wsrep-node-address="$ADDR:$group" --wsrep-node-incoming-address="$ADDR:$sql_port" \
    --wsrep-sst-method=rsync --wsrep-sst-receive-address="$ADDR:$transfer" \
    --wsrep-provider-options="gmcast.listen_addr=tcp://$ADDR:$group;ist.recv_addr=$ADDR:$(port "$node-ist");gcache.size=64M;gcache.recover=yes;evs.keepalive_period=PT0.25S;evs.inactive_check_period=PT0.25S;evs.suspect_timeout=PT1.5S;evs.inactive_timeout=PT5S;evs.install_timeout=PT5S" \
    "$@"
}

# begin NODE: starts a cluster with the node. The user may create databases: each test has its own.
# HAProxy checks the nodes as a user without rights.
begin() {
  install "$1"
  cat >"$DIR/$1/init.sql" <<-SQL
	CREATE DATABASE IF NOT EXISTS carillon CHARACTER SET utf8mb4;
	CREATE USER IF NOT EXISTS carillon@'%' IDENTIFIED BY 'carillon';
	GRANT ALL ON *.* TO carillon@'%';
	CREATE USER IF NOT EXISTS haproxy@'%';
	SQL
  [ ! -f "$DIR/$1/grastate.dat" ] || sed -i 's/^safe_to_bootstrap:.*/safe_to_bootstrap: 1/' "$DIR/$1/grastate.dat"
  run "$1" --wsrep-new-cluster --init-file="$DIR/$1/init.sql" || return 1
  healthy "$1" 60 synced "$1"
}

# latest prints the stopped node with the latest commit, which no other node lacks.
latest() {
  local n at best=galera-1 most=-2
  for n in "${nodes[@]}"; do
    [ -d "$DIR/$n" ] || continue
    at=$(position "$n") || return 1
    at=${at##*:}
    if [ -n "$at" ] && [ "$at" -gt "$most" ]; then best=$n most=$at; fi
  done
  echo "$best"
}

start() {
  local n first= members=
  for n in "${nodes[@]}"; do
    if alive "$n" && synced "$n"; then first=$n; fi
  done
  for n in "${nodes[@]}"; do
    # Without a node that serves, those that run have lost the majority and wait for it.
    if alive "$n" && ! { [ -n "$first" ] && synced "$n"; }; then stop "$n"; fi
    alive "$n" || port "$n-group" >/dev/null
    members+=${members:+,}$ADDR:$(cat "$DIR/$n-group.port")
  done
  if [ -z "$first" ]; then
    first=$(latest) || return 1
    begin "$first" || return 1
  fi
  for n in "${nodes[@]}"; do
    alive "$n" && continue
    install "$n"
    run "$n" || return 1
    healthy "$n" 120 synced "$n" || return 1
  done
  for n in "${nodes[@]}"; do healthy "$n" 30 synced "$n" 3 || return 1; done
}

# proxy starts HAProxy, which gives each connection another node. It closes the connections of a
# node that does not answer.
proxy() {
  local n
  cat >"$DIR/galera-proxy.cfg" <<-CFG
	defaults
	  mode tcp
	  timeout connect 2s
	  timeout client 1h
	  timeout server 1h
	  timeout check 1s
	listen galera
	  bind $ADDR:$(port galera-proxy)
	  balance roundrobin
	  option mysql-check user haproxy
	  default-server check inter 500ms fall 2 rise 2 on-marked-down shutdown-sessions
	CFG
  for n in "${nodes[@]}"; do
    echo "  server $n $ADDR:$(cat "$DIR/$n.port")" >>"$DIR/galera-proxy.cfg"
  done
  spawn galera-proxy haproxy -db -f "$DIR/galera-proxy.cfg"
  healthy galera-proxy 20 sql galera-proxy 'SELECT 1'
}

stopped=("${@:3}")
[ $# -gt 2 ] || stopped=(galera-proxy galera-3 galera-2 galera-1)
case $1 in
  up)
    if [ "$user" = mysql ] && [ "$(id -un)" = root ]; then
      chmod o+x "$DIR"
      runuser -u mysql -- test -x "$DIR" ||
        { echo "galera: the user mysql cannot enter $DIR: choose another directory" >&2 && exit 1; }
    fi
    before=$(cat "$DIR"/galera-[123].port 2>/dev/null || true)
    attempt galera-1 start
    if alive galera-proxy && [ "$before" != "$(cat "$DIR"/galera-[123].port)" ]; then stop galera-proxy; fi
    alive galera-proxy || attempt galera-proxy proxy galera-proxy
    list=
    for n in "${nodes[@]}"; do list+=${list:+,}$ADDR:$(cat "$DIR/$n.port"); done
    export_env galera "TEST_GALERA_DSN=carillon:carillon@tcp($ADDR:$(cat "$DIR/galera-proxy.port"))/carillon" \
      "TEST_GALERA_ADDRS=$list"
    ;;
  down)
    # The last one to stop may begin the cluster again.
    for n in "${stopped[@]}"; do stop "$n"; done
    [ $# -eq 2 ] || exit 0
    rm -f "$DIR/galera.env" "$DIR/galera-proxy.cfg"
    [ -z "$wipe" ] || rm -rf "$DIR"/galera-*
    ;;
esac
