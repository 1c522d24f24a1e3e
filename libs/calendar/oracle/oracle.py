"""Answers questions with recurring-ical-events.

Each line of the input is a JSON object: a file ("ics"), a zone ("zone", empty for none), the first
day ("from") and the day after the last ("to"). Each line of the output lists the days that events
of the file touch on the wall clock of that zone, separated by blanks, or "error" and the reason.
Without a zone, days are as written in the file."""

import json
import sys
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import icalendar
import recurring_ical_events


def touched(event, zone):
    start = event["DTSTART"].dt
    end = event["DTEND"].dt if "DTEND" in event else start
    if not isinstance(start, datetime):
        first, last = start, max(start, end - timedelta(days=1))
    else:
        if start.tzinfo is not None:
            shown = zone or start.tzinfo
            start, end = (at.astimezone(timezone.utc) for at in (start, end))
            last = max(start, end - timedelta(seconds=1)).astimezone(shown)
            first = start.astimezone(shown)
        else:
            first, last = start, max(start, end - timedelta(seconds=1))
        first, last = first.date(), last.date()
    while first <= last:
        yield first
        first += timedelta(days=1)


def answer(line):
    question = json.loads(line)
    begin, end = (date.fromisoformat(question[name]) for name in ("from", "to"))
    zone = ZoneInfo(question["zone"]) if question["zone"] else None
    days = set()
    try:
        for calendar in icalendar.Calendar.from_ical(question["ics"], multiple=True):
            # Some days more on either side, as events last, and zones differ.
            around = timedelta(days=40)
            for event in recurring_ical_events.of(calendar).between(begin - around, end + around):
                if event.get("STATUS") != "CANCELLED":  # the library leaves them to its callers
                    days.update(touched(event, zone))
    except Exception as e:  # what the library says of a file is an answer
        return f"error {type(e).__name__} {e}".replace("\n", " ")
    return " ".join(day.isoformat() for day in sorted(days) if begin <= day < end)


for line in sys.stdin:
    print(answer(line), flush=True)
