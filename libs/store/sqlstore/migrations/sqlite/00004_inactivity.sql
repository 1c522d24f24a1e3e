-- The same additions as on MySQL.

-- +goose Up
ALTER TABLE timers ADD COLUMN inactive_since_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE timers ADD COLUMN ended_ms INTEGER NOT NULL DEFAULT 0;

CREATE TABLE inactivities (
    timer_id INTEGER NOT NULL,
    from_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    status INTEGER NOT NULL,
    PRIMARY KEY (timer_id, from_ms)
) STRICT, WITHOUT ROWID;
CREATE INDEX inactivities_by_until ON inactivities (until_ms);

CREATE TABLE deferred (
    timer_id INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    series INTEGER NOT NULL,
    run_at_ms INTEGER NOT NULL,
    rev INTEGER NOT NULL,
    PRIMARY KEY (timer_id, due_ms, series)
) STRICT, WITHOUT ROWID;
