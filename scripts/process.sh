# Sourced by the server scripts: starts, finds and stops the processes of one state directory.
#
# A pid file holds the pid and the start time, in ticks since boot. So a process that has reused the
# pid is never taken for ours.

PATH=$PATH:/usr/sbin:/sbin
# The programs of another version of Redis or Valkey, from scripts/versions/install.sh.
[ -z "${CARILLON_TEST_REDIS_HOME:-}" ] || PATH=$CARILLON_TEST_REDIS_HOME/bin:$PATH
# Servers listen on this machine only, unless a test's processes run elsewhere (pods reach the
# node's address).
ADDR=${CARILLON_SERVERS_ADDR:-127.0.0.1}

# started PID: prints the start time of a running process, and nothing for an ended one or a zombie.
started() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  stat=${stat##*) } # the name before it may contain spaces
  set -- $stat
  [ "$1" = Z ] || echo "${20}"
}

# alive NAME: succeeds if DIR/NAME.pid names a process that we started.
alive() {
  local pid start
  read -r pid start 2>/dev/null <"$DIR/$1.pid" || return 1
  [ -n "$start" ] && [ "$(started "$pid")" = "$start" ]
}

# spawn NAME COMMAND…: starts a detached process that logs to DIR/NAME.log. It holds none of our
# locks.
spawn() {
  local name=$1
  shift
  setsid "$@" >>"$DIR/$name.log" 2>&1 </dev/null 9>&- &
  echo "$! $(started $!)" >"$DIR/$name.pid"
}

# stop NAME: stops the process, by force after 20 s, and removes its pid file.
stop() {
  local pid start i
  if alive "$1"; then
    read -r pid start <"$DIR/$1.pid"
    kill -TERM "$pid" 2>/dev/null || true
    for ((i = 0; i < 200; i++)); do
      alive "$1" || break
      sleep 0.1
    done
    ! alive "$1" || kill -KILL "$pid" 2>/dev/null || true
  fi
  rm -f "$DIR/$1.pid"
}

# listening PORT: succeeds if a process listens on the port.
listening() { (exec 3<>"/dev/tcp/$ADDR/$1") 2>/dev/null; }

# port NAME: prints a port for NAME and remembers it: its previous one if that is free or becomes so
# within 5 s, as that of a process that was just killed; else a free one below the ephemeral range
# that no other server of DIR has, also if that starts at this moment. If a process elsewhere takes
# the port before the start, the start fails and is repeated.
port() (
  p=$(cat "$DIR/$1.port" 2>/dev/null || true)
  for _ in {1..50}; do
    [ -n "$p" ] && listening "$p" || break
    sleep 0.1
  done
  flock 9
  while [ -z "$p" ] || listening "$p"; do
    p=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
    ! grep -qxF "$p" "$DIR"/*.port 2>/dev/null || p=
  done
  echo "$p" | tee "$DIR/$1.port"
) 9>>"$DIR/ports.lock"

# fixed NAME: prints the port of NAME, which stays, because other nodes of a cluster know it.
fixed() { cat "$DIR/$1.port" 2>/dev/null || port "$1"; }

# healthy NAME SECONDS COMMAND…: waits until COMMAND succeeds. It fails at once if NAME's process
# has ended.
healthy() {
  local name=$1 end=$((SECONDS + $2))
  shift 2
  until "$@" >/dev/null 2>&1; do
    alive "$name" || return 1
    [ $SECONDS -lt $end ] || return 1
    sleep 0.2
  done
}

# attempt NAME FUNCTION PORT…: calls FUNCTION up to three times, each time with other ports. It
# shows the log if all fail.
attempt() {
  local p
  for _ in 1 2 3; do
    if "$2"; then return 0; fi
    stop "$1"
    for p in "${@:3}"; do rm -f "$DIR/$p.port"; done
  done
  echo "$1 does not start; the end of $DIR/$1.log:" >&2
  tail -n 20 "$DIR/$1.log" >&2 || true
  return 1
}

# export_env NAME KEY=VALUE…: writes DIR/NAME.env with each KEY for the services and for the tests.
# A KEY that begins with TEST_ is for the tests alone.
export_env() {
  local file=$DIR/$1.env pair
  shift
  for pair in "$@"; do
    [[ $pair == TEST_* ]] || printf "export CARILLON_%s='%s'\n" "${pair%%=*}" "${pair#*=}"
    pair=${pair#TEST_}
    printf "export CARILLON_TEST_%s='%s'\n" "${pair%%=*}" "${pair#*=}"
  done >"$file.new"
  mv "$file.new" "$file"
}

# arguments USAGE COMMAND DIR: checks the arguments, and sets DIR to an absolute path.
arguments() {
  if [ $# -lt 3 ] || [[ ! $2 =~ ^(up|down)$ ]]; then echo "usage: $1 up|down DIR" >&2 && exit 2; fi
  [ "$2" = down ] || mkdir -p "$3"
  [ -d "$3" ] || exit 0 # no server was ever started there
  DIR=$(cd "$3" && pwd)
}
