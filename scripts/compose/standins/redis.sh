#!/bin/bash
# Like the official image, accepts connections from other hosts.
[ "${1:-}" != redis-server ] || set -- "$@" --protected-mode no
exec "$@"
