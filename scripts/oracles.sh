#!/usr/bin/env bash
# Builds the reference implementations that the tests of libs/schedule and libs/calendar use, and
# prints their directory: oracles.sh
#
# Maven downloads Quartz. pip installs croniter, cronsim and recurring-ical-events into their own
# environment. Everything is in $CARILLON_CACHE (default ~/.cache/carillon), under a name that
# depends on the requested versions. A second run does nothing. A run that dies halfway leaves
# nothing that a later run would take for complete.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source=$root/libs/schedule/oracle
calendar=$root/libs/calendar/oracle
key=$(cat "$source/pom.xml" "$source/requirements.txt" "$source/Oracle.java" "$calendar/requirements.txt" | sha256sum | cut -c1-12)
dir=${CARILLON_CACHE:-$HOME/.cache/carillon}/oracles-$key
if [ -f "$dir/ready" ]; then
  echo "$dir"
  exit
fi

"$root/scripts/install-servers.sh" oracles >&2
mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9
if [ ! -f "$dir/ready" ]; then # a process that waited finds the work done
  echo "oracles: building them into $dir" >&2
  rm -rf "$dir/java" "$dir/python"
  mkdir "$dir/java"
  cp "$source/pom.xml" "$dir/java/"
  mvn -q -B -f "$dir/java/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$dir/java/lib" >&2
  javac --release 17 -cp "$dir/java/lib/*" -d "$dir/java/classes" "$source/Oracle.java" >&2
  python3 -m venv "$dir/python" >&2
  "$dir/python/bin/pip" install -q --disable-pip-version-check -r "$source/requirements.txt" -r "$calendar/requirements.txt" >&2
  touch "$dir/ready"
fi
echo "$dir"
