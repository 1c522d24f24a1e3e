-- The same additions as on MySQL.

-- +goose Up
-- done: bit i says that the fire's target i has taken it.
ALTER TABLE fires ADD COLUMN lane INTEGER NOT NULL DEFAULT 0;
ALTER TABLE fires ADD COLUMN done INTEGER NOT NULL DEFAULT 0;

-- redriven: the series of the latest redrive, 0 none.
ALTER TABLE outcomes ADD COLUMN failure TEXT NOT NULL DEFAULT '';
ALTER TABLE outcomes ADD COLUMN redriven INTEGER NOT NULL DEFAULT 0;

-- Several targets of one attempt may end in the same millisecond. A primary key cannot be changed in place.
CREATE TABLE attempts_3 (
    finished_ms INTEGER NOT NULL,
    timer_id INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    series INTEGER NOT NULL,
    n INTEGER NOT NULL,
    start_ms INTEGER NOT NULL,
    status_code INTEGER NOT NULL,
    error TEXT NOT NULL,
    excerpt TEXT NOT NULL,
    failure TEXT NOT NULL DEFAULT '',
    target TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (finished_ms, timer_id, due_ms, series, n, target)
) STRICT, WITHOUT ROWID;
INSERT INTO attempts_3 (finished_ms, timer_id, due_ms, series, n, start_ms, status_code, error, excerpt)
SELECT finished_ms, timer_id, due_ms, series, n, start_ms, status_code, error, excerpt FROM attempts;
DROP TABLE attempts;
ALTER TABLE attempts_3 RENAME TO attempts;
CREATE INDEX attempts_by_timer ON attempts (timer_id, due_ms, series);

-- Which outcomes of an app are failed, for the search by app.
CREATE TABLE failures (
    app_id INTEGER NOT NULL,
    finished_ms INTEGER NOT NULL,
    timer_id INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    series INTEGER NOT NULL,
    PRIMARY KEY (app_id, finished_ms, timer_id, due_ms, series)
) STRICT, WITHOUT ROWID;
CREATE INDEX failures_by_finished ON failures (finished_ms);
INSERT INTO failures (app_id, finished_ms, timer_id, due_ms, series)
SELECT app_id, finished_ms, timer_id, due_ms, series FROM outcomes WHERE kind = 'failed';

-- settings is JSON, NULL none.
ALTER TABLE apps ADD COLUMN settings BLOB NULL;
ALTER TABLE apps ADD COLUMN settings_version INTEGER NOT NULL DEFAULT 0;

-- secret is sealed text.
CREATE TABLE signing_keys (
    id INTEGER NOT NULL,
    app_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    secret TEXT NOT NULL,
    public TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX signing_keys_by_app ON signing_keys (app_id);

-- The deployment's own keys are those of the app with the empty name. revoked_ms is 0 while the key lives.
CREATE TABLE api_keys (
    id TEXT NOT NULL,
    app_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    scope TEXT NOT NULL,
    hash BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    revoked_ms INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX api_keys_by_app ON api_keys (app_id);

-- announced_*: up to where the session's outcomes are published; announced: all are, and the session has ended.
ALTER TABLE sessions ADD COLUMN acked_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN acked_timer INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN acked_due_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN acked_series INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN announced INTEGER NOT NULL DEFAULT 0;
