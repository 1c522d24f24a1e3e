-- The same tables as on MySQL. All times are unix milliseconds. Tables that are reached by their primary key have no rowid: the
-- key is the table; but for timer_versions, whose rows are too long for that. Texts compare byte by byte (BINARY collation, SQLite's default).

-- +goose Up
CREATE TABLE apps (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    frozen INTEGER NOT NULL DEFAULT 0,
    created_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX apps_by_name ON apps (name);

-- live_name is the name while the timer lives, NULL once it is deleted: NULLs do not collide, so the name is free at once.
-- maker is a random mark of the call that made the row: it tells whose row it is when two processes made the same id.
CREATE TABLE timers (
    id INTEGER NOT NULL,
    app_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    live_name TEXT NULL,
    status INTEGER NOT NULL,
    version INTEGER NOT NULL,
    active_since_ms INTEGER NOT NULL,
    active_epoch INTEGER NOT NULL,
    next_due_ms INTEGER NOT NULL,
    expand_at_ms INTEGER NOT NULL,
    fires_created INTEGER NOT NULL,
    maker INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX timers_by_live_name ON timers (app_id, live_name);
CREATE INDEX timers_by_expand ON timers (status, expand_at_ms);
CREATE INDEX timers_by_app ON timers (app_id, id);

CREATE TABLE timer_versions (
    timer_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    hash BLOB NOT NULL,
    definition BLOB NOT NULL,
    PRIMARY KEY (timer_id, version)
) STRICT;

CREATE TABLE timer_changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    timer_id INTEGER NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE idempotency (
    app_id INTEGER NOT NULL,
    idem_key TEXT NOT NULL,
    hash BLOB NOT NULL,
    timer_id INTEGER NOT NULL,
    maker INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (app_id, idem_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_at ON idempotency (at_ms);

-- Open fires only. Neighbours in time share pages, and a claim, which writes owner, changes no index.
CREATE TABLE fires (
    due_ms INTEGER NOT NULL,
    timer_id INTEGER NOT NULL,
    series INTEGER NOT NULL,
    run_at_minute INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    run_at_ms INTEGER NOT NULL,
    app_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    cause INTEGER NOT NULL,
    state INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    late_ms INTEGER NOT NULL,
    rev INTEGER NOT NULL,
    owner INTEGER NOT NULL DEFAULT 0,
    sweeps INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (due_ms, timer_id, series)
) STRICT, WITHOUT ROWID;
CREATE INDEX fires_by_run ON fires (run_at_minute, bucket, run_at_ms);

-- Keep deletes the old ones in chunks, from the front of the primary key.
CREATE TABLE outcomes (
    finished_ms INTEGER NOT NULL,
    timer_id INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    series INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    fires INTEGER NOT NULL,
    run_at_ms INTEGER NOT NULL,
    app_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    cause INTEGER NOT NULL,
    rev INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    lateness_ms INTEGER NOT NULL,
    status_code INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    PRIMARY KEY (finished_ms, timer_id, due_ms, series)
) STRICT, WITHOUT ROWID;
CREATE INDEX outcomes_by_timer ON outcomes (timer_id, due_ms, series);

-- finished_ms is the end of the attempt.
CREATE TABLE attempts (
    finished_ms INTEGER NOT NULL,
    timer_id INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    series INTEGER NOT NULL,
    n INTEGER NOT NULL,
    start_ms INTEGER NOT NULL,
    status_code INTEGER NOT NULL,
    error TEXT NOT NULL,
    excerpt TEXT NOT NULL,
    PRIMARY KEY (finished_ms, timer_id, due_ms, series, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempts_by_timer ON attempts (timer_id, due_ms, series);

CREATE TABLE minutes (
    minute INTEGER NOT NULL,
    buckets INTEGER NOT NULL,
    estimate INTEGER NOT NULL,
    frozen INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (minute)
) STRICT, WITHOUT ROWID;

CREATE TABLE slices (
    minute INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    token INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    holder INTEGER NOT NULL,
    done INTEGER NOT NULL,
    PRIMARY KEY (minute, bucket)
) STRICT, WITHOUT ROWID;

CREATE TABLE cursors (
    name TEXT NOT NULL,
    minute INTEGER NOT NULL,
    PRIMARY KEY (name)
) STRICT, WITHOUT ROWID;

-- ended_ms is 0 while the session lives.
CREATE TABLE sessions (
    id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    renewals INTEGER NOT NULL,
    inflight_full INTEGER NOT NULL,
    oldest_task_ms INTEGER NOT NULL,
    opened_ms INTEGER NOT NULL,
    renewed_ms INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
