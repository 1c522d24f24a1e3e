#!/usr/bin/env python3
"""Writes settings from the environment into a file of them, as the image's script of this name does: NAME changes one that is there,
PULSAR_PREFIX_NAME also adds it."""
import os
import sys

prefix = "PULSAR_PREFIX_"
for path in sys.argv[1:]:
    with open(path) as f:
        lines = f.read().splitlines()
    at = {line.split("=", 1)[0].strip(): i for i, line in enumerate(lines) if "=" in line and not line.startswith("#")}
    for name, value in sorted(os.environ.items()):
        key = name.removeprefix(prefix)
        if key in at:
            lines[at[key]] = key + "=" + value
        elif name != key:
            lines.append(key + "=" + value)
        else:
            continue
        print(f"[{path}] {key} = {value}")
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
