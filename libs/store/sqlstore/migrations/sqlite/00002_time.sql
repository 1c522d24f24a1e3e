-- The same additions as on MySQL.

-- +goose Up
ALTER TABLE apps ADD COLUMN freeze_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE apps ADD COLUMN frozen_ms INTEGER NOT NULL DEFAULT 0;

-- replan: 0 nothing to do, 1 the definition was edited while the timer was not active, 2 a calendar changed. running_*: the fire that has the
-- turn, 0 none. caught_*: the fire that is the catch-up (its due instant), and the last instant that it covers. plan_version:
-- since which version the chain of a fixed delay goes on; last_serial_due_ms: the due instant of its latest fire.
ALTER TABLE timers ADD COLUMN anchor_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE timers ADD COLUMN version_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE timers ADD COLUMN replan INTEGER NOT NULL DEFAULT 0;
ALTER TABLE timers ADD COLUMN pause_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE timers ADD COLUMN paused_until_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE timers ADD COLUMN running_due_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE timers ADD COLUMN running_series INTEGER NOT NULL DEFAULT 0;
ALTER TABLE timers ADD COLUMN caught_by_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE timers ADD COLUMN caught_to_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE timers ADD COLUMN plan_version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE timers ADD COLUMN last_serial_due_ms INTEGER NOT NULL DEFAULT 0;

-- app_id is 0 but for an entry about a whole app, whose timer_id is 0.
ALTER TABLE timer_changes ADD COLUMN app_id INTEGER NOT NULL DEFAULT 0;

-- The fires that wait for their turn.
CREATE TABLE waiting (
    timer_id INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    series INTEGER NOT NULL,
    PRIMARY KEY (timer_id, due_ms, series)
) STRICT, WITHOUT ROWID;

CREATE TABLE calendars (
    app_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    content BLOB NOT NULL,
    updated_ms INTEGER NOT NULL,
    PRIMARY KEY (app_id, name)
) STRICT;

-- Which live timers name a calendar.
CREATE TABLE timer_calendars (
    app_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    timer_id INTEGER NOT NULL,
    PRIMARY KEY (app_id, name, timer_id)
) STRICT, WITHOUT ROWID;

-- status: 0 running, 1 done, 2 cancelled.
CREATE TABLE backfills (
    id INTEGER NOT NULL,
    app_id INTEGER NOT NULL,
    timer_id INTEGER NOT NULL,
    from_ms INTEGER NOT NULL,
    to_ms INTEGER NOT NULL,
    next_ms INTEGER NOT NULL,
    made INTEGER NOT NULL,
    status INTEGER NOT NULL,
    expand_at_ms INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX backfills_by_expand ON backfills (status, expand_at_ms);

-- When the version came into force. 0: written by the release before, which knew one version only.
ALTER TABLE timer_versions ADD COLUMN made_ms INTEGER NOT NULL DEFAULT 0;
