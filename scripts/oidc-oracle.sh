#!/usr/bin/env bash
# Installs the identity providers that the sign-in is tested with, and prints their directory:
# oidc-oracle.sh. These are a certified OpenID provider, which needs Node, and Keycloak, which needs
# a JDK and Maven.
#
# They are in $CARILLON_CACHE (default ~/.cache/carillon), under a name that depends on what is
# requested. A second run does nothing. A run that dies halfway leaves nothing that a later run
# would take for complete.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
from=$root/services/api/oracle
key=$(cat "$from/package-lock.json" "$from/provider.mjs" "$from/pom.xml" "$from/keycloak.sha256" "$root/scripts/oidc-oracle.sh" | sha256sum | cut -c1-12)
dir=${CARILLON_CACHE:-$HOME/.cache/carillon}/oidc-$key
if [ -f "$dir/ready" ]; then
  echo "$dir"
  exit
fi

"$root/scripts/install-servers.sh" oracles >&2
mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9
if [ ! -f "$dir/ready" ]; then # a process that waited finds the work done
  echo "oidc-oracle: installing into $dir" >&2
  rm -rf "$dir/node_modules" "$dir/keycloak" "$dir/maven"
  cp "$from/package.json" "$from/package-lock.json" "$from/provider.mjs" "$dir"
  npm ci --prefix "$dir" --ignore-scripts --no-audit --no-fund >&2
  mkdir "$dir/maven"
  cp "$from/pom.xml" "$dir/maven"
  mvn -q -B -f "$dir/maven/pom.xml" dependency:copy-dependencies -DexcludeTransitive -DincludeTypes=zip \
    -Dmdep.stripVersion -DoutputDirectory="$dir/maven" >&2
  (cd "$dir/maven" && sha256sum --quiet -c "$from/keycloak.sha256") >&2
  python3 -m zipfile -e "$dir/maven/keycloak-quarkus-dist.zip" "$dir/maven/dist"
  mv "$dir"/maven/dist/keycloak-* "$dir/keycloak"
  rm -rf "$dir/maven"
  # What depends on settings is built once: otherwise each start would build it.
  bash "$dir/keycloak/bin/kc.sh" build --db=dev-mem >&2
  touch "$dir/ready"
fi
echo "$dir"
