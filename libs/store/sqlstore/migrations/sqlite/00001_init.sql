-- The tables of the store on SQLite: the same as on MySQL.
-- Texts compare byte by byte, which is SQLite's default.
-- Columns that end in _ms are unix milliseconds, or durations. The largest INTEGER means never.
-- Tables are WITHOUT ROWID, except those whose rows are too long for that.
-- All statements run as one: goose reads them faster than one by one.

-- +goose Up
-- +goose StatementBegin
-- apps has one row per tenant.
CREATE TABLE apps (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    -- empty: the deployment itself, which owns the keys for all apps
    name             TEXT    NOT NULL,
    -- 1: no fire of the app is called
    frozen           INTEGER NOT NULL DEFAULT 0,
    freeze_reason    TEXT    NOT NULL DEFAULT '',
    frozen_since_ms  INTEGER NOT NULL DEFAULT 0,
    -- JSON, NULL: none
    settings         BLOB    NULL,
    -- counts the changes of settings
    settings_version INTEGER NOT NULL DEFAULT 0,
    -- id of the running job that deletes the app, 0: none
    deleting_job     INTEGER NOT NULL DEFAULT 0,
    created_ms       INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX apps_by_name ON apps (name);

-- timers has the present state of each timer. Its definitions are in timer_versions. The lock on
-- its row guards the timer's rows in slot_queue, inactivities, deferred_fires and replans.
CREATE TABLE timers (
    id                 INTEGER NOT NULL,
    app_id             INTEGER NOT NULL,
    name               TEXT    NOT NULL,
    -- the name, NULL once the timer is deleted: its name is free at once
    live_name          TEXT    NULL,
    -- 0 inactive, 1 active, 2 deleted, 3 paused
    status             INTEGER NOT NULL,
    -- the present version of the definition
    version            INTEGER NOT NULL,
    -- when that version came into force
    version_since_ms   INTEGER NOT NULL,
    -- the oldest version that has the same plan as the present one, 0: the first
    plan_version       INTEGER NOT NULL DEFAULT 0,
    -- when the latest activation began
    active_since_ms    INTEGER NOT NULL,
    -- counts the activations
    active_epoch       INTEGER NOT NULL,
    -- the first activation, from which intervals count
    anchor_ms          INTEGER NOT NULL,
    -- every due instant before it has its fire
    next_due_ms        INTEGER NOT NULL,
    -- the latest due instant that the present plan has expanded, 0: none
    last_due_ms        INTEGER NOT NULL DEFAULT 0,
    -- when a migrator expands the timer next
    expand_at_ms       INTEGER NOT NULL,
    -- 0 nothing to do, 1 edited while inactive, 2 calendar or time zone changed
    replan             INTEGER NOT NULL,
    -- counts towards max_fires
    fires_created      INTEGER NOT NULL,
    -- when the present status other than active began
    inactive_since_ms  INTEGER NOT NULL,
    -- when the pause ends, 0: it has no end
    paused_until_ms    INTEGER NOT NULL,
    pause_reason       TEXT    NOT NULL,
    -- W3C traceparent of the request that made the timer, empty: it had none
    origin             TEXT    NOT NULL DEFAULT '',
    -- due instant of the fire that has the concurrency slot; negative: the slot is free, and that
    -- fire had it last; 0: the slot is free
    slot_due_ms        INTEGER NOT NULL DEFAULT 0,
    -- series of that fire
    slot_series        INTEGER NOT NULL DEFAULT 0,
    -- due instant of the fire that runs for all misfired ones
    catch_up_due_ms    INTEGER NOT NULL DEFAULT 0,
    -- it stands for the fires that were to run up to here
    catch_up_to_ms     INTEGER NOT NULL DEFAULT 0,
    -- when the last call of the schedule ended: a fixed delay counts from it
    last_call_ended_ms INTEGER NOT NULL DEFAULT 0,
    -- random number of the call that inserted the row: detects two calls that chose one id
    creation_token     INTEGER NOT NULL,
    created_ms         INTEGER NOT NULL,
    updated_ms         INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX timers_by_live_name ON timers (app_id, live_name);
CREATE INDEX timers_by_expand ON timers (status, expand_at_ms);
CREATE INDEX timers_by_app ON timers (app_id, id);
-- a timer that is due is found by last_due_ms, or by next_due_ms once that has passed
CREATE INDEX timers_by_last_due ON timers (app_id, status, last_due_ms);
CREATE INDEX timers_by_next_due ON timers (app_id, status, next_due_ms);

-- timer_versions has every version of each definition. Only re-encryption changes a row.
CREATE TABLE timer_versions (
    timer_id     INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    -- the oldest version that has the same plan, 0: the first. Its open fires are called by this
    -- version
    plan_version INTEGER NOT NULL,
    -- SHA-256 of definition
    hash         BLOB    NOT NULL,
    -- JSON in canonical form
    definition   BLOB    NOT NULL,
    -- when the version came into force
    created_ms   INTEGER NOT NULL,
    PRIMARY KEY (timer_id, version)
) STRICT;

-- timer_attributes has what timers that are not deleted are searched by, of the present version.
CREATE TABLE timer_attributes (
    app_id   INTEGER NOT NULL,
    -- 0 label, 1 host of a target, 2 has metrics (of app 0, with a row of timer 0 as a lock)
    kind     INTEGER NOT NULL,
    -- of a label, else empty
    name     TEXT    NOT NULL,
    value    TEXT    NOT NULL,
    timer_id INTEGER NOT NULL,
    PRIMARY KEY (app_id, kind, name, value, timer_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX timer_attributes_by_timer ON timer_attributes (timer_id, kind, name);

-- timer_changes is the change log that executors poll.
CREATE TABLE timer_changes (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    -- 0: the change is about a whole app
    timer_id   INTEGER NOT NULL,
    -- 0: the change is about one timer
    app_id     INTEGER NOT NULL DEFAULT 0,
    changed_ms INTEGER NOT NULL
) STRICT;

-- audit_log has who changed what. A definition is not copied: its versions are in timer_versions.
CREATE TABLE audit_log (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    app_id         INTEGER NOT NULL,
    changed_ms     INTEGER NOT NULL,
    -- how the actor is known: key, gateway, …
    actor_kind     TEXT    NOT NULL,
    actor_id       TEXT    NOT NULL,
    -- display name
    actor_name     TEXT    NOT NULL,
    -- of the client
    address        TEXT    NOT NULL,
    request_id     TEXT    NOT NULL,
    -- the job that carried out the change, 0: none
    job_id         INTEGER NOT NULL,
    action         TEXT    NOT NULL,
    kind           TEXT    NOT NULL,
    -- id or name of what was changed
    resource       TEXT    NOT NULL,
    -- of a timer, else empty
    name           TEXT    NOT NULL,
    -- of the definition of a timer, 0: none
    before_version INTEGER NOT NULL,
    after_version  INTEGER NOT NULL,
    -- JSON without secrets, empty: there was nothing, or the versions tell it
    before_state   BLOB    NOT NULL,
    after_state    BLOB    NOT NULL
) STRICT;
CREATE INDEX audit_log_by_app ON audit_log (app_id);
CREATE INDEX audit_log_by_resource ON audit_log (app_id, kind, resource);

-- idempotency_keys has what a caller's key stood for, for a day.
CREATE TABLE idempotency_keys (
    app_id          INTEGER NOT NULL,
    idempotency_key TEXT    NOT NULL,
    -- another request with the same key is a conflict
    request_hash    BLOB    NOT NULL,
    -- the id of the timer that was created, or the value that PutIfAbsent kept
    value           INTEGER NOT NULL,
    -- as in timers
    creation_token  INTEGER NOT NULL,
    created_ms      INTEGER NOT NULL,
    PRIMARY KEY (app_id, idempotency_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_created ON idempotency_keys (created_ms);

-- fires has the open fires only. By its primary key, neighbours in time share pages. A claim
-- writes owner, which is in no index.
CREATE TABLE fires (
    -- the nominal instant, never changed
    due_ms            INTEGER NOT NULL,
    timer_id          INTEGER NOT NULL,
    -- 0: of the schedule, else the id of a run-now, backfill or redrive
    series            INTEGER NOT NULL,
    -- when the fire is to be called next
    run_at_ms         INTEGER NOT NULL,
    -- the minute of run_at_ms
    run_at_minute     INTEGER NOT NULL,
    -- minute and bucket are the slice
    bucket            INTEGER NOT NULL,
    app_id            INTEGER NOT NULL,
    -- the version of the definition by which it was planned
    version           INTEGER NOT NULL,
    -- active_epoch of the timer when it was planned
    epoch             INTEGER NOT NULL,
    -- timer.Cause
    cause             INTEGER NOT NULL,
    -- timer.FireState
    state             INTEGER NOT NULL,
    -- timer.PriorityLevel
    priority          INTEGER NOT NULL,
    -- how many attempts have begun
    attempt           INTEGER NOT NULL,
    -- bit i: target i has taken the fire
    target_bits       INTEGER NOT NULL,
    -- lateness of the first attempt
    first_lateness_ms INTEGER NOT NULL,
    -- counts the releases: a claim of an older revision wins nothing
    revision          INTEGER NOT NULL,
    -- the session that claimed the fire, 0: nobody
    owner             INTEGER NOT NULL,
    -- since when the next attempt waits for what waited_for says, 0: it does not
    waiting_since_ms  INTEGER NOT NULL DEFAULT 0,
    -- timer.Wait; without waiting_since_ms: the longest wait before the first attempt
    waited_for        INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (due_ms, timer_id, series)
) STRICT, WITHOUT ROWID;
CREATE INDEX fires_by_run ON fires (run_at_minute, bucket, run_at_ms);

-- outcomes has the finished fires. A stretch of skipped fires of one timer is one row.
-- PurgeExpired deletes expired rows in chunks, from the front of the primary key.
CREATE TABLE outcomes (
    finished_ms    INTEGER NOT NULL,
    timer_id       INTEGER NOT NULL,
    -- of a stretch: the first due instant
    due_ms         INTEGER NOT NULL,
    series         INTEGER NOT NULL,
    -- of a stretch: the last due instant
    until_ms       INTEGER NOT NULL,
    -- how many fires the row stands for
    fire_count     INTEGER NOT NULL,
    run_at_ms      INTEGER NOT NULL,
    app_id         INTEGER NOT NULL,
    version        INTEGER NOT NULL,
    epoch          INTEGER NOT NULL,
    cause          INTEGER NOT NULL,
    revision       INTEGER NOT NULL,
    -- the session that recorded the row, 1: the store itself
    owner          INTEGER NOT NULL,
    -- delivered, failed or skipped
    kind           TEXT    NOT NULL,
    reason         TEXT    NOT NULL,
    -- class of the last attempt's failure
    failure        TEXT    NOT NULL,
    attempts       INTEGER NOT NULL,
    -- of the first attempt
    lateness_ms    INTEGER NOT NULL,
    -- of the last attempt
    status_code    INTEGER NOT NULL,
    -- of the last attempt
    duration_ms    INTEGER NOT NULL,
    -- series of the latest redrive, 0: none
    redrive_series INTEGER NOT NULL,
    -- timer.Path: what brought the fire to the session that recorded it
    path           INTEGER NOT NULL DEFAULT 0,
    -- how long before its claim the task of the fire was published, -1: unknown
    task_age_ms    INTEGER NOT NULL DEFAULT -1,
    -- how long before finished_ms the fire was claimed, -1: unknown
    held_ms        INTEGER NOT NULL DEFAULT -1,
    -- timer.Wait: the longest wait before the first attempt
    waited_for     INTEGER NOT NULL DEFAULT 0,
    -- how long that was, 0: unknown; the largest value stands for longer waits, too
    waited_ms      INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (finished_ms, timer_id, due_ms, series)
) STRICT, WITHOUT ROWID;
CREATE INDEX outcomes_by_timer ON outcomes (timer_id, due_ms, series);
-- for searches by app: each app appends at its end
CREATE INDEX outcomes_by_app ON outcomes (app_id, finished_ms, timer_id, due_ms, series);

-- attempts has the attempts of fires that had more than one to tell, and those of several targets.
-- PurgeExpired deletes expired rows like those of outcomes.
CREATE TABLE attempts (
    -- the end of the attempt
    finished_ms INTEGER NOT NULL,
    timer_id    INTEGER NOT NULL,
    due_ms      INTEGER NOT NULL,
    series      INTEGER NOT NULL,
    -- its number, from 1
    attempt     INTEGER NOT NULL,
    -- name of one of several targets, else empty
    target      TEXT    NOT NULL,
    started_ms  INTEGER NOT NULL,
    status_code INTEGER NOT NULL,
    -- class of the failure
    failure     TEXT    NOT NULL,
    error       TEXT    NOT NULL,
    -- the first bytes of the receiver's answer
    excerpt     TEXT    NOT NULL,
    PRIMARY KEY (finished_ms, timer_id, due_ms, series, attempt, target)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempts_by_timer ON attempts (timer_id, due_ms, series);

-- failed_outcomes lists the keys of failed outcomes by app. Few outcomes are failed, and a search
-- along outcomes by app would read the others, too.
CREATE TABLE failed_outcomes (
    app_id      INTEGER NOT NULL,
    finished_ms INTEGER NOT NULL,
    timer_id    INTEGER NOT NULL,
    due_ms      INTEGER NOT NULL,
    series      INTEGER NOT NULL,
    PRIMARY KEY (app_id, finished_ms, timer_id, due_ms, series)
) STRICT, WITHOUT ROWID;
CREATE INDEX failed_outcomes_by_finished ON failed_outcomes (finished_ms);

-- slot_queue has the fires that wait for the concurrency slot of their timer. Each has a row: a
-- list in the timer's row would be rewritten whole with each fire that joins or leaves.
CREATE TABLE slot_queue (
    timer_id INTEGER NOT NULL,
    due_ms   INTEGER NOT NULL,
    series   INTEGER NOT NULL,
    PRIMARY KEY (timer_id, due_ms, series)
) STRICT, WITHOUT ROWID;

-- inactivities has the stretches [from_ms, until_ms) in which timers were not active.
CREATE TABLE inactivities (
    timer_id INTEGER NOT NULL,
    from_ms  INTEGER NOT NULL,
    -- never: the stretch has not ended
    until_ms INTEGER NOT NULL,
    -- as in timers
    status   INTEGER NOT NULL,
    PRIMARY KEY (timer_id, from_ms)
) STRICT, WITHOUT ROWID;
CREATE INDEX inactivities_by_until ON inactivities (until_ms);

-- deferred_fires has the open fires that wait until their timer is active again.
CREATE TABLE deferred_fires (
    timer_id  INTEGER NOT NULL,
    due_ms    INTEGER NOT NULL,
    series    INTEGER NOT NULL,
    -- when the fire runs once the timer is active
    run_at_ms INTEGER NOT NULL,
    -- of the fire while it waits: one that was claimed since has another
    revision  INTEGER NOT NULL,
    PRIMARY KEY (timer_id, due_ms, series)
) STRICT, WITHOUT ROWID;

-- replans has the timers whose edit has not decided yet about all open fires of older versions. Those
-- from next_due_ms of the timer on are undecided.
CREATE TABLE replans (
    timer_id     INTEGER NOT NULL,
    -- no fire of an older version is due at this instant or later
    until_ms     INTEGER NOT NULL,
    -- when a migrator decides about the next of them
    next_page_ms INTEGER NOT NULL,
    PRIMARY KEY (timer_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX replans_by_next_page ON replans (next_page_ms);

-- calendars has the named calendars of apps.
CREATE TABLE calendars (
    app_id     INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    -- counts the changes, from 1
    version    INTEGER NOT NULL,
    -- JSON
    content    BLOB    NOT NULL,
    updated_ms INTEGER NOT NULL,
    PRIMARY KEY (app_id, name)
) STRICT;

-- timer_calendars tells which timers name a calendar. Deleted timers have no rows.
CREATE TABLE timer_calendars (
    app_id   INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    timer_id INTEGER NOT NULL,
    PRIMARY KEY (app_id, name, timer_id)
) STRICT, WITHOUT ROWID;

-- backfills has the requests for the fires of a past range.
CREATE TABLE backfills (
    -- the series of its fires, too
    id            INTEGER NOT NULL,
    app_id        INTEGER NOT NULL,
    timer_id      INTEGER NOT NULL,
    -- included
    from_ms       INTEGER NOT NULL,
    -- excluded
    to_ms         INTEGER NOT NULL,
    -- every due instant before it has its fire
    next_ms       INTEGER NOT NULL,
    fires_created INTEGER NOT NULL,
    -- 0 running, 1 done, 2 cancelled
    status        INTEGER NOT NULL,
    -- when a migrator expands the backfill next
    expand_at_ms  INTEGER NOT NULL,
    created_ms    INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX backfills_by_expand ON backfills (status, expand_at_ms);

-- jobs has the changes of many timers of an app.
CREATE TABLE jobs (
    -- the series of its fires, too
    id             INTEGER NOT NULL,
    app_id         INTEGER NOT NULL,
    action         TEXT    NOT NULL,
    -- JSON: which timers, and what is done to them
    request        BLOB    NOT NULL,
    -- JSON: who started it, empty: unknown
    started_by     BLOB    NOT NULL,
    -- 0 running, 1 done, 2 cancelled, 3 failed
    status         INTEGER NOT NULL,
    -- why it failed
    reason         TEXT    NOT NULL,
    -- how many timers matched when it was created
    total          INTEGER NOT NULL,
    -- 1: there may have been more
    at_least       INTEGER NOT NULL,
    -- JSON: ids of the timers that are being changed, empty: none
    page           BLOB    NOT NULL,
    -- when page was written
    page_ms        INTEGER NOT NULL,
    -- every timer up to it is done, except for those in page
    after_timer_id INTEGER NOT NULL,
    done_count     INTEGER NOT NULL,
    failed_count   INTEGER NOT NULL,
    -- JSON: the first errors, empty: none
    errors         BLOB    NOT NULL,
    -- counts the leases: only the latest writes progress
    token          INTEGER NOT NULL,
    -- a running job may be leased again after it
    lease_until_ms INTEGER NOT NULL,
    created_ms     INTEGER NOT NULL,
    updated_ms     INTEGER NOT NULL,
    -- 0: it is running
    finished_ms    INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT;
CREATE INDEX jobs_by_lease ON jobs (status, lease_until_ms);
CREATE INDEX jobs_by_app ON jobs (app_id, id);
CREATE INDEX jobs_by_app_status ON jobs (app_id, status);
CREATE INDEX jobs_by_finished ON jobs (finished_ms);

-- minutes tells how many buckets the fires of a minute are spread over. A minute without a row has
-- one.
CREATE TABLE minutes (
    -- minutes since 1970, of run_at_ms
    minute          INTEGER NOT NULL,
    -- how many buckets, never fewer than before
    buckets         INTEGER NOT NULL,
    estimated_fires INTEGER NOT NULL,
    -- 1: the number of buckets is final
    frozen          INTEGER NOT NULL,
    PRIMARY KEY (minute)
) STRICT, WITHOUT ROWID;

-- slices has the slices that schedulers hand out: the fires of one minute in one bucket.
CREATE TABLE slices (
    minute         INTEGER NOT NULL,
    bucket         INTEGER NOT NULL,
    -- grows with each claim: only the latest renews and finishes
    token          INTEGER NOT NULL,
    -- a slice that is not done may be claimed again after it
    lease_until_ms INTEGER NOT NULL,
    -- id of the trigger that renews the lease, 0: none yet
    lease_holder   INTEGER NOT NULL,
    done           INTEGER NOT NULL,
    PRIMARY KEY (minute, bucket)
) STRICT, WITHOUT ROWID;

-- cursors has the row slices: all slices of the minutes before the cursor are done. The row audit
-- has the seq of the last published entry of the audit trail, audit_lease until when one scheduler
-- publishes them, in ms. The row purged has the instant before which outcomes may be gone, in ms.
CREATE TABLE cursors (
    name   TEXT    NOT NULL,
    minute INTEGER NOT NULL,
    PRIMARY KEY (name)
) STRICT, WITHOUT ROWID;

-- sessions has the executors and schedulers. Each proves with renewals that it is alive.
CREATE TABLE sessions (
    -- 1: stands for the store itself, and is never alive
    id                 INTEGER NOT NULL,
    -- executor or scheduler
    kind               TEXT    NOT NULL,
    name               TEXT    NOT NULL,
    -- how many there were: a session that stops renewing expires
    renewals           INTEGER NOT NULL,
    -- 1: the executor receives no more tasks
    inflight_full      INTEGER NOT NULL,
    -- age of the task received last, of the topic that is furthest behind
    oldest_task_age_ms INTEGER NOT NULL,
    opened_ms          INTEGER NOT NULL,
    renewed_ms         INTEGER NOT NULL,
    -- 0: the session is alive
    ended_ms           INTEGER NOT NULL,
    -- acked_*: the position in outcomes up to which the events of the session are published
    acked_finished_ms  INTEGER NOT NULL DEFAULT 0,
    acked_timer_id     INTEGER NOT NULL DEFAULT 0,
    acked_due_ms       INTEGER NOT NULL DEFAULT 0,
    acked_series       INTEGER NOT NULL DEFAULT 0,
    -- 1: the session has ended and all its events are published
    events_acked       INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;

-- signing_keys has the keys that sign the callbacks of an app.
CREATE TABLE signing_keys (
    id         INTEGER NOT NULL,
    app_id     INTEGER NOT NULL,
    -- hmac or ed25519
    kind       TEXT    NOT NULL,
    -- encrypted
    secret     TEXT    NOT NULL,
    -- public key of ed25519
    public     TEXT    NOT NULL,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX signing_keys_by_app ON signing_keys (app_id);

-- api_keys has the keys of the API. Those for all apps belong to the app with the empty name.
CREATE TABLE api_keys (
    -- public part of the key
    id         TEXT    NOT NULL,
    app_id     INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    scope      TEXT    NOT NULL,
    -- of the secret part
    hash       BLOB    NOT NULL,
    created_ms INTEGER NOT NULL,
    -- 0: the key is valid
    revoked_ms INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX api_keys_by_app ON api_keys (app_id);

-- ended_sign_ins has since when sessions of a person at the page count. The sessions are in cookies.
CREATE TABLE ended_sign_ins (
    -- the identity provider
    issuer    TEXT    NOT NULL,
    -- its id of the person
    subject   TEXT    NOT NULL,
    -- sessions that began before are ended
    before_ms INTEGER NOT NULL,
    PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_sign_ins_by_before ON ended_sign_ins (before_ms);

-- zone_rules has the rules of time zones by which timers may have been planned.
CREATE TABLE zone_rules (
    -- SHA-256 of zones
    hash     TEXT    NOT NULL,
    -- JSON: the fingerprint of each zone by its name
    zones    BLOB    NOT NULL,
    added_ms INTEGER NOT NULL,
    PRIMARY KEY (hash)
) STRICT;

-- deployment has one row: the name of this database. Processes compare it over Redis and Pulsar.
CREATE TABLE deployment (
    id    INTEGER NOT NULL,
    -- random
    token TEXT    NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;

INSERT INTO deployment (id, token) VALUES (1, lower(hex(randomblob(16))));

-- processes has the processes of the deployment, and the rules of time zones they plan by.
CREATE TABLE processes (
    id          INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    -- of the time zone data
    version     TEXT    NOT NULL,
    -- of the rules, as in zone_rules
    hash        TEXT    NOT NULL,
    -- 1: it expands the timers that others made
    is_migrator INTEGER NOT NULL,
    -- JSON: the settings that must be the same in all processes, by name
    settings    BLOB    NOT NULL,
    renewed_ms  INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;

-- zone_replan has one row: the walk through all timers that marks those to be replanned.
CREATE TABLE zone_replan (
    id            INTEGER NOT NULL,
    -- the rules that the walk is for
    hash          TEXT    NOT NULL,
    -- the walk has passed all timers up to this id
    last_timer_id INTEGER NOT NULL,
    -- other rules in use since it began: 0 by a migrator, 1 by others, 2 by nobody
    exclusivity   INTEGER NOT NULL,
    done          INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;

INSERT INTO zone_replan (id, hash, last_timer_id, exclusivity, done) VALUES (1, '', 0, 0, 0);

-- schema_readers tells which programs may use a schema that is later than theirs. Each later
-- migration adds its row. A program refuses a later migration that has no row, or whose min_reader
-- is greater than the program's schema version.
CREATE TABLE schema_readers (
    -- of the migration
    version    INTEGER NOT NULL,
    -- the oldest schema version whose programs may use this schema
    min_reader INTEGER NOT NULL,
    PRIMARY KEY (version)
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd
