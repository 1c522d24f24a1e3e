# Sourced by the server scripts: starts, finds and ends the processes of one state directory. A pid file holds the process id and its
# start time (in ticks since boot), so that a number that the kernel gave to somebody else is never taken for ours.

PATH=$PATH:/usr/sbin:/sbin
# Where servers listen: this machine only, unless a test's processes live elsewhere (pods reach the node's address).
ADDR=${CARILLON_SERVERS_ADDR:-127.0.0.1}

# started PID: prints the start time of a living process, nothing for one that is gone or a zombie.
started() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  stat=${stat##*) } # the name before it may hold spaces
  set -- $stat
  [ "$1" = Z ] || echo "${20}"
}

# alive NAME: succeeds when DIR/NAME.pid names a process that we started.
alive() {
  local pid start
  read -r pid start 2>/dev/null <"$DIR/$1.pid" || return 1
  [ -n "$start" ] && [ "$(started "$pid")" = "$start" ]
}

# spawn NAME COMMAND…: starts a detached process that logs to DIR/NAME.log. It keeps no lock of ours.
spawn() {
  local name=$1
  shift
  setsid "$@" >>"$DIR/$name.log" 2>&1 </dev/null 9>&- &
  echo "$! $(started $!)" >"$DIR/$name.pid"
}

# stop NAME: ends it gracefully, after 20 s by force, and removes its pid file.
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

# listening PORT: succeeds when somebody listens there.
listening() { (exec 3<>"/dev/tcp/$ADDR/$1") 2>/dev/null; }

# port NAME: prints the port that NAME had before, if that is free, else a free one below the ephemeral range, and
# remembers it. Between this and the start somebody may take it; then the start fails and is tried again.
port() {
  local p
  p=$(cat "$DIR/$1.port" 2>/dev/null || true)
  while [ -z "$p" ] || listening "$p"; do
    p=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
  done
  echo "$p" | tee "$DIR/$1.port"
}

# healthy NAME SECONDS COMMAND…: waits until COMMAND succeeds; fails at once when NAME's process has ended.
healthy() {
  local name=$1 end=$((SECONDS + $2))
  shift 2
  until "$@" >/dev/null 2>&1; do
    alive "$name" || return 1
    [ $SECONDS -lt $end ] || return 1
    sleep 0.2
  done
}

# attempt NAME FUNCTION PORT…: calls FUNCTION up to three times, with other ports, and shows the log when all fail.
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
export_env() {
  local file=$DIR/$1.env pair
  shift
  for pair in "$@"; do
    printf "export CARILLON_%s='%s'\nexport CARILLON_TEST_%s='%s'\n" "${pair%%=*}" "${pair#*=}" "${pair%%=*}" "${pair#*=}"
  done >"$file.new"
  mv "$file.new" "$file"
}

# arguments USAGE COMMAND DIR: checks them, and sets DIR to an absolute path.
arguments() {
  if [ $# -lt 3 ] || [[ ! $2 =~ ^(up|down)$ ]]; then echo "usage: $1 up|down DIR" >&2 && exit 2; fi
  [ "$2" = down ] || mkdir -p "$3"
  [ -d "$3" ] || exit 0 # nothing was ever started there
  DIR=$(cd "$3" && pwd)
}
