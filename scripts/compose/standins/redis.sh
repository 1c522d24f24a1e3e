#!/bin/bash
# The official image lets others than the loopback in, too.
[ "${1:-}" != redis-server ] || set -- "$@" --protected-mode no
exec "$@"
