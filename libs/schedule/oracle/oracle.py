"""Answers questions with cronsim or croniter.

Each line of the input is a library, a spec, a zone, an instant (Unix ms) and a count, separated by
tabs. Each line of the output lists the following instants without duplicates, separated by blanks,
or "error" and the reason."""

import sys
from datetime import datetime
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, croniter
from cronsim import CronSim, CronSimError


def instants(library, spec, start):
    if library == "cronsim":
        for at in CronSim(spec, start):
            yield round(at.timestamp() * 1000)
    else:
        # croniter's order is: minute, hour, day, month, weekday, second, year.
        fields = spec.split()
        if len(fields) > 5:
            fields = fields[1:6] + fields[:1] + fields[6:]
        found = croniter(" ".join(fields), start, ret_type=float, max_years_between_matches=60)
        while True:
            yield round(found.get_next() * 1000)


def answer(line):
    library, spec, zone, start, count = line.rstrip("\n").split("\t")
    out = []
    try:
        for at in instants(library, spec, datetime.fromtimestamp(int(start) / 1000, ZoneInfo(zone))):
            if len(out) == int(count):
                break
            if at not in out:
                out.append(at)
    except (CroniterBadDateError, CronSimError):
        pass  # no further instants
    except Exception as e:  # an error of the library is an answer
        if not out:
            return f"error {type(e).__name__} {e}"
    return " ".join(map(str, out))


for line in sys.stdin:
    print(answer(line))
