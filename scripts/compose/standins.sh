#!/usr/bin/env bash
# Lists which stand-in replaces which image on the running engine: standins.sh.
set -euo pipefail
said() { printf '!!!   %-28s %s\n' "$1" "$(docker run --rm --network none --entrypoint sh "$1" -c "$2" 2>/dev/null | head -1)"; }
said golang:1.26-bookworm 'go version'
said mysql:8.4 'mysqld --version'
said redis:7.4 'redis-server --version'
said apachepulsar/pulsar:4.0.7 'cd lib && echo "Pulsar of Maven: $(ls | grep pulsar-broker-[0-9])"'
said prom/prometheus:v3.5.0 'prometheus --version'
said grafana/grafana:12.1.1 'bin/grafana --version 2>/dev/null || echo "NOTHING: it answers /api/health only. NOT TESTED: the dashboard in Grafana (see CARILLON_GRAFANA)"'
