-- The tables of the store on MySQL 8 and MariaDB 10.11.
-- Names and texts are VARBINARY: they compare byte by byte, without folding case.
-- Columns that end in _ms are unix milliseconds, or durations. The largest BIGINT means never.

-- +goose Up
-- apps has one row per tenant.
CREATE TABLE apps (
    id               BIGINT         NOT NULL AUTO_INCREMENT,
    -- empty: the deployment itself, which owns the keys for all apps
    name             VARBINARY(64)  NOT NULL,
    -- 1: no fire of the app is called
    frozen           TINYINT        NOT NULL DEFAULT 0,
    freeze_reason    VARBINARY(256) NOT NULL DEFAULT '',
    frozen_since_ms  BIGINT         NOT NULL DEFAULT 0,
    -- JSON, NULL: none
    settings         MEDIUMBLOB     NULL,
    -- counts the changes of settings
    settings_version BIGINT         NOT NULL DEFAULT 0,
    -- id of the running job that deletes the app, 0: none
    deleting_job     BIGINT         NOT NULL DEFAULT 0,
    created_ms       BIGINT         NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY by_name (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- app_guards is written where a lock on an app is needed and the nodes of a cluster share no locks.
CREATE TABLE app_guards (
    -- 0 and less: the guards of what belongs to no app
    app_id BIGINT  NOT NULL,
    stripe TINYINT NOT NULL,
    -- counts the transactions
    writes BIGINT  NOT NULL,
    PRIMARY KEY (app_id, stripe)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- timers has the present state of each timer. Its definitions are in timer_versions. The lock on
-- its row guards the timer's rows in slot_queue, inactivities, deferred_fires and replans.
CREATE TABLE timers (
    id                 BIGINT         NOT NULL,
    app_id             BIGINT         NOT NULL,
    name               VARBINARY(128) NOT NULL,
    -- the name, NULL once the timer is deleted: its name is free at once
    live_name          VARBINARY(128) NULL,
    -- 0 inactive, 1 active, 2 deleted, 3 paused
    status             TINYINT        NOT NULL,
    -- the present version of the definition
    version            INT            NOT NULL,
    -- when that version came into force
    version_since_ms   BIGINT         NOT NULL,
    -- the oldest version that has the same plan as the present one, 0: the first
    plan_version       INT            NOT NULL DEFAULT 0,
    -- when the latest activation began
    active_since_ms    BIGINT         NOT NULL,
    -- counts the activations
    active_epoch       BIGINT         NOT NULL,
    -- the first activation, from which intervals count
    anchor_ms          BIGINT         NOT NULL,
    -- every due instant before it has its fire
    next_due_ms        BIGINT         NOT NULL,
    -- the latest due instant that the present plan has expanded, 0: none
    last_due_ms        BIGINT         NOT NULL DEFAULT 0,
    -- when a migrator expands the timer next
    expand_at_ms       BIGINT         NOT NULL,
    -- 0 nothing to do, 1 edited while inactive, 2 calendar or time zone changed
    replan             TINYINT        NOT NULL,
    -- counts towards max_fires
    fires_created      BIGINT         NOT NULL,
    -- when the present status other than active began
    inactive_since_ms  BIGINT         NOT NULL,
    -- when the pause ends, 0: it has no end
    paused_until_ms    BIGINT         NOT NULL,
    pause_reason       VARBINARY(256) NOT NULL,
    -- W3C traceparent of the request that made the timer, empty: it had none
    origin             VARBINARY(64)  NOT NULL DEFAULT '',
    -- due instant of the fire that has the concurrency slot; negative: the slot is free, and that
    -- fire had it last; 0: the slot is free
    slot_due_ms        BIGINT         NOT NULL DEFAULT 0,
    -- series of that fire
    slot_series        BIGINT         NOT NULL DEFAULT 0,
    -- due instant of the fire that runs for all misfired ones
    catch_up_due_ms    BIGINT         NOT NULL DEFAULT 0,
    -- it stands for the fires that were to run up to here
    catch_up_to_ms     BIGINT         NOT NULL DEFAULT 0,
    -- when the last call of the schedule ended: a fixed delay counts from it
    last_call_ended_ms BIGINT         NOT NULL DEFAULT 0,
    -- random number of the call that inserted the row: detects two calls that chose one id
    creation_token     BIGINT         NOT NULL,
    -- counts the transactions that locked the row, where the nodes of a cluster share no locks
    guard              BIGINT         NOT NULL DEFAULT 0,
    created_ms         BIGINT         NOT NULL,
    updated_ms         BIGINT         NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY by_live_name (app_id, live_name),
    KEY by_expand (status, expand_at_ms),
    KEY by_app (app_id, id),
    -- a timer that is due is found by last_due_ms, or by next_due_ms once that has passed
    KEY by_last_due (app_id, status, last_due_ms),
    KEY by_next_due (app_id, status, next_due_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- timer_versions has every version of each definition. Only re-encryption changes a row.
CREATE TABLE timer_versions (
    timer_id     BIGINT     NOT NULL,
    version      INT        NOT NULL,
    -- the oldest version that has the same plan, 0: the first. Its open fires are called by this
    -- version
    plan_version INT        NOT NULL,
    -- SHA-256 of definition
    hash         BINARY(32) NOT NULL,
    -- JSON in canonical form
    definition   MEDIUMBLOB NOT NULL,
    -- when the version came into force
    created_ms   BIGINT     NOT NULL,
    PRIMARY KEY (timer_id, version)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- timer_attributes has what timers that are not deleted are searched by, of the present version.
CREATE TABLE timer_attributes (
    app_id   BIGINT         NOT NULL,
    -- 0 label, 1 host of a target, 2 has metrics (of app 0, with a row of timer 0 as a lock)
    kind     TINYINT        NOT NULL,
    -- of a label, else empty
    name     VARBINARY(256) NOT NULL,
    value    VARBINARY(256) NOT NULL,
    timer_id BIGINT         NOT NULL,
    PRIMARY KEY (app_id, kind, name, value, timer_id),
    KEY by_timer (timer_id, kind, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- timer_changes is the change log that executors poll.
CREATE TABLE timer_changes (
    seq        BIGINT NOT NULL AUTO_INCREMENT,
    -- 0: the change is about a whole app
    timer_id   BIGINT NOT NULL,
    -- 0: the change is about one timer
    app_id     BIGINT NOT NULL DEFAULT 0,
    changed_ms BIGINT NOT NULL,
    PRIMARY KEY (seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- audit_log has who changed what. A definition is not copied: its versions are in timer_versions.
CREATE TABLE audit_log (
    seq            BIGINT         NOT NULL AUTO_INCREMENT,
    app_id         BIGINT         NOT NULL,
    changed_ms     BIGINT         NOT NULL,
    -- how the actor is known: key, gateway, …
    actor_kind     VARBINARY(16)  NOT NULL,
    actor_id       VARBINARY(255) NOT NULL,
    -- display name
    actor_name     VARBINARY(255) NOT NULL,
    -- of the client
    address        VARBINARY(64)  NOT NULL,
    request_id     VARBINARY(128) NOT NULL,
    -- the job that carried out the change, 0: none
    job_id         BIGINT         NOT NULL,
    action         VARBINARY(16)  NOT NULL,
    kind           VARBINARY(16)  NOT NULL,
    -- id or name of what was changed
    resource       VARBINARY(255) NOT NULL,
    -- of a timer, else empty
    name           VARBINARY(128) NOT NULL,
    -- of the definition of a timer, 0: none
    before_version INT            NOT NULL,
    after_version  INT            NOT NULL,
    -- JSON without secrets, empty: there was nothing, or the versions tell it
    before_state   MEDIUMBLOB     NOT NULL,
    after_state    MEDIUMBLOB     NOT NULL,
    PRIMARY KEY (seq),
    KEY by_app (app_id, seq),
    KEY by_resource (app_id, kind, resource, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- idempotency_keys has what a caller's key stood for, for a day.
CREATE TABLE idempotency_keys (
    app_id          BIGINT         NOT NULL,
    idempotency_key VARBINARY(255) NOT NULL,
    -- another request with the same key is a conflict
    request_hash    VARBINARY(64)  NOT NULL,
    -- the id of the timer that was created, or the value that PutIfAbsent kept
    value           BIGINT         NOT NULL,
    -- as in timers
    creation_token  BIGINT         NOT NULL,
    created_ms      BIGINT         NOT NULL,
    PRIMARY KEY (app_id, idempotency_key),
    KEY by_created (created_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- fires has the open fires only. By its primary key, neighbours in time share pages. A claim
-- writes owner, which is in no index.
CREATE TABLE fires (
    -- the nominal instant, never changed
    due_ms            BIGINT           NOT NULL,
    timer_id          BIGINT           NOT NULL,
    -- 0: of the schedule, else the id of a run-now, backfill or redrive
    series            BIGINT           NOT NULL,
    -- when the fire is to be called next
    run_at_ms         BIGINT           NOT NULL,
    -- the minute of run_at_ms
    run_at_minute     INT              NOT NULL,
    -- minute and bucket are the slice
    bucket            INT              NOT NULL,
    app_id            BIGINT           NOT NULL,
    -- the version of the definition by which it was planned
    version           INT              NOT NULL,
    -- active_epoch of the timer when it was planned
    epoch             BIGINT           NOT NULL,
    -- timer.Cause
    cause             TINYINT UNSIGNED NOT NULL,
    -- timer.FireState
    state             TINYINT UNSIGNED NOT NULL,
    -- timer.PriorityLevel
    priority          TINYINT UNSIGNED NOT NULL,
    -- how many attempts have begun
    attempt           INT              NOT NULL,
    -- bit i: target i has taken the fire
    target_bits       INT UNSIGNED     NOT NULL,
    -- lateness of the first attempt
    first_lateness_ms BIGINT           NOT NULL,
    -- counts the releases: a claim of an older revision wins nothing
    revision          INT              NOT NULL,
    -- the session that claimed the fire, 0: nobody
    owner             BIGINT           NOT NULL,
    -- since when the next attempt waits for what waited_for says, 0: it does not
    waiting_since_ms  BIGINT           NOT NULL DEFAULT 0,
    -- timer.Wait; without waiting_since_ms: the longest wait before the first attempt
    waited_for        TINYINT UNSIGNED NOT NULL DEFAULT 0,
    PRIMARY KEY (due_ms, timer_id, series),
    KEY by_run (run_at_minute, bucket, run_at_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- outcomes has the finished fires. A stretch of skipped fires of one timer is one row. It is
-- partitioned by the day of finished_ms. PurgeExpired adds partitions for coming days and drops
-- expired ones. A row for which no day has been added goes to pmax.
CREATE TABLE outcomes (
    finished_ms    BIGINT                          NOT NULL,
    timer_id       BIGINT                          NOT NULL,
    -- of a stretch: the first due instant
    due_ms         BIGINT                          NOT NULL,
    series         BIGINT                          NOT NULL,
    -- of a stretch: the last due instant
    until_ms       BIGINT                          NOT NULL,
    -- how many fires the row stands for
    fire_count     BIGINT                          NOT NULL,
    run_at_ms      BIGINT                          NOT NULL,
    app_id         BIGINT                          NOT NULL,
    version        INT                             NOT NULL,
    epoch          BIGINT                          NOT NULL,
    cause          TINYINT UNSIGNED                NOT NULL,
    revision       INT                             NOT NULL,
    -- the session that recorded the row, 1: the store itself
    owner          BIGINT                          NOT NULL,
    -- delivered, failed or skipped
    kind           VARCHAR(16) CHARACTER SET ascii NOT NULL,
    reason         VARCHAR(32) CHARACTER SET ascii NOT NULL,
    -- class of the last attempt's failure
    failure        VARCHAR(16) CHARACTER SET ascii NOT NULL,
    attempts       INT                             NOT NULL,
    -- of the first attempt
    lateness_ms    BIGINT                          NOT NULL,
    -- of the last attempt
    status_code    INT                             NOT NULL,
    -- of the last attempt
    duration_ms    BIGINT                          NOT NULL,
    -- series of the latest redrive, 0: none
    redrive_series BIGINT                          NOT NULL,
    -- timer.Path: what brought the fire to the session that recorded it
    path           TINYINT UNSIGNED                NOT NULL DEFAULT 0,
    -- how long before its claim the task of the fire was published, -1: unknown
    task_age_ms    INT                             NOT NULL DEFAULT -1,
    -- how long before finished_ms the fire was claimed, -1: unknown
    held_ms        INT                             NOT NULL DEFAULT -1,
    -- timer.Wait: the longest wait before the first attempt
    waited_for     TINYINT UNSIGNED                NOT NULL DEFAULT 0,
    -- how long that was, 0: unknown; the largest value stands for longer waits, too
    waited_ms      MEDIUMINT UNSIGNED              NOT NULL DEFAULT 0,
    PRIMARY KEY (finished_ms, timer_id, due_ms, series),
    KEY by_timer (timer_id, due_ms, series),
    -- for searches by app: each app appends at its end
    KEY by_app (app_id, finished_ms, timer_id, due_ms, series)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin
PARTITION BY RANGE (finished_ms) (PARTITION pmax VALUES LESS THAN MAXVALUE);

-- attempts has the attempts of fires that had more than one to tell, and those of several targets.
-- It is partitioned like outcomes.
CREATE TABLE attempts (
    -- the end of the attempt
    finished_ms BIGINT                          NOT NULL,
    timer_id    BIGINT                          NOT NULL,
    due_ms      BIGINT                          NOT NULL,
    series      BIGINT                          NOT NULL,
    -- its number, from 1
    attempt     INT                             NOT NULL,
    -- name of one of several targets, else empty
    target      VARBINARY(32)                   NOT NULL,
    started_ms  BIGINT                          NOT NULL,
    status_code INT                             NOT NULL,
    -- class of the failure
    failure     VARCHAR(16) CHARACTER SET ascii NOT NULL,
    error       VARBINARY(512)                  NOT NULL,
    -- the first bytes of the receiver's answer
    excerpt     VARBINARY(512)                  NOT NULL,
    PRIMARY KEY (finished_ms, timer_id, due_ms, series, attempt, target),
    KEY by_timer (timer_id, due_ms, series)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin
PARTITION BY RANGE (finished_ms) (PARTITION pmax VALUES LESS THAN MAXVALUE);

-- failed_outcomes lists the keys of failed outcomes by app. Few outcomes are failed, and a search
-- along outcomes by app would read the others, too.
CREATE TABLE failed_outcomes (
    app_id      BIGINT NOT NULL,
    finished_ms BIGINT NOT NULL,
    timer_id    BIGINT NOT NULL,
    due_ms      BIGINT NOT NULL,
    series      BIGINT NOT NULL,
    PRIMARY KEY (app_id, finished_ms, timer_id, due_ms, series),
    KEY by_finished (finished_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- slot_queue has the fires that wait for the concurrency slot of their timer. Each has a row: a
-- list in the timer's row would be rewritten whole with each fire that joins or leaves.
CREATE TABLE slot_queue (
    timer_id BIGINT NOT NULL,
    due_ms   BIGINT NOT NULL,
    series   BIGINT NOT NULL,
    PRIMARY KEY (timer_id, due_ms, series)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- inactivities has the stretches [from_ms, until_ms) in which timers were not active.
CREATE TABLE inactivities (
    timer_id BIGINT  NOT NULL,
    from_ms  BIGINT  NOT NULL,
    -- never: the stretch has not ended
    until_ms BIGINT  NOT NULL,
    -- as in timers
    status   TINYINT NOT NULL,
    PRIMARY KEY (timer_id, from_ms),
    KEY by_until (until_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- deferred_fires has the open fires that wait until their timer is active again.
CREATE TABLE deferred_fires (
    timer_id  BIGINT NOT NULL,
    due_ms    BIGINT NOT NULL,
    series    BIGINT NOT NULL,
    -- when the fire runs once the timer is active
    run_at_ms BIGINT NOT NULL,
    -- of the fire while it waits: one that was claimed since has another
    revision  INT    NOT NULL,
    PRIMARY KEY (timer_id, due_ms, series)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- replans has the timers whose edit has not decided yet about all open fires of older versions. Those
-- from next_due_ms of the timer on are undecided.
CREATE TABLE replans (
    timer_id     BIGINT NOT NULL,
    -- no fire of an older version is due at this instant or later
    until_ms     BIGINT NOT NULL,
    -- when a migrator decides about the next of them
    next_page_ms BIGINT NOT NULL,
    PRIMARY KEY (timer_id),
    KEY by_next_page (next_page_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- calendars has the named calendars of apps.
CREATE TABLE calendars (
    app_id     BIGINT         NOT NULL,
    name       VARBINARY(128) NOT NULL,
    -- counts the changes, from 1
    version    BIGINT         NOT NULL,
    -- JSON
    content    MEDIUMBLOB     NOT NULL,
    updated_ms BIGINT         NOT NULL,
    PRIMARY KEY (app_id, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- timer_calendars tells which timers name a calendar. Deleted timers have no rows.
CREATE TABLE timer_calendars (
    app_id   BIGINT         NOT NULL,
    name     VARBINARY(128) NOT NULL,
    timer_id BIGINT         NOT NULL,
    PRIMARY KEY (app_id, name, timer_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- backfills has the requests for the fires of a past range.
CREATE TABLE backfills (
    -- the series of its fires, too
    id            BIGINT  NOT NULL,
    app_id        BIGINT  NOT NULL,
    timer_id      BIGINT  NOT NULL,
    -- included
    from_ms       BIGINT  NOT NULL,
    -- excluded
    to_ms         BIGINT  NOT NULL,
    -- every due instant before it has its fire
    next_ms       BIGINT  NOT NULL,
    fires_created BIGINT  NOT NULL,
    -- 0 running, 1 done, 2 cancelled
    status        TINYINT NOT NULL,
    -- when a migrator expands the backfill next
    expand_at_ms  BIGINT  NOT NULL,
    created_ms    BIGINT  NOT NULL,
    PRIMARY KEY (id),
    KEY by_expand (status, expand_at_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- jobs has the changes of many timers of an app.
CREATE TABLE jobs (
    -- the series of its fires, too
    id             BIGINT         NOT NULL,
    app_id         BIGINT         NOT NULL,
    action         VARBINARY(16)  NOT NULL,
    -- JSON: which timers, and what is done to them
    request        BLOB           NOT NULL,
    -- JSON: who started it, empty: unknown
    started_by     BLOB           NOT NULL,
    -- 0 running, 1 done, 2 cancelled, 3 failed
    status         TINYINT        NOT NULL,
    -- why it failed
    reason         VARBINARY(512) NOT NULL,
    -- how many timers matched when it was created
    total          BIGINT         NOT NULL,
    -- 1: there may have been more
    at_least       TINYINT        NOT NULL,
    -- JSON: ids of the timers that are being changed, empty: none
    page           BLOB           NOT NULL,
    -- when page was written
    page_ms        BIGINT         NOT NULL,
    -- every timer up to it is done, except for those in page
    after_timer_id BIGINT         NOT NULL,
    done_count     BIGINT         NOT NULL,
    failed_count   BIGINT         NOT NULL,
    -- JSON: the first errors, empty: none
    errors         BLOB           NOT NULL,
    -- counts the leases: only the latest writes progress
    token          BIGINT         NOT NULL,
    -- a running job may be leased again after it
    lease_until_ms BIGINT         NOT NULL,
    created_ms     BIGINT         NOT NULL,
    updated_ms     BIGINT         NOT NULL,
    -- 0: it is running
    finished_ms    BIGINT         NOT NULL,
    PRIMARY KEY (id),
    KEY by_lease (status, lease_until_ms),
    KEY by_app (app_id, id),
    KEY by_app_status (app_id, status),
    KEY by_finished (finished_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- minutes tells how many buckets the fires of a minute are spread over. A minute without a row has
-- one.
CREATE TABLE minutes (
    -- minutes since 1970, of run_at_ms
    minute          BIGINT  NOT NULL,
    -- how many buckets, never fewer than before
    buckets         INT     NOT NULL,
    estimated_fires BIGINT  NOT NULL,
    -- 1: the number of buckets is final
    frozen          TINYINT NOT NULL,
    PRIMARY KEY (minute)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- slices has the slices that schedulers hand out: the fires of one minute in one bucket.
CREATE TABLE slices (
    minute         BIGINT  NOT NULL,
    bucket         INT     NOT NULL,
    -- grows with each claim: only the latest renews and finishes
    token          BIGINT  NOT NULL,
    -- a slice that is not done may be claimed again after it
    lease_until_ms BIGINT  NOT NULL,
    -- id of the trigger that renews the lease, 0: none yet
    lease_holder   BIGINT  NOT NULL,
    done           TINYINT NOT NULL,
    PRIMARY KEY (minute, bucket)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- cursors has the row slices: all slices of the minutes before the cursor are done. The row audit
-- has the seq of the last published entry of the audit trail, audit_lease until when one scheduler
-- publishes them, in ms. The row purged has the instant before which outcomes may be gone, in ms.
CREATE TABLE cursors (
    name   VARBINARY(32) NOT NULL,
    minute BIGINT        NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- sessions has the executors and schedulers. Each proves with renewals that it is alive.
CREATE TABLE sessions (
    -- 1: stands for the store itself, and is never alive
    id                 BIGINT         NOT NULL,
    -- executor or scheduler
    kind               VARBINARY(16)  NOT NULL,
    name               VARBINARY(255) NOT NULL,
    -- how many there were: a session that stops renewing expires
    renewals           BIGINT         NOT NULL,
    -- 1: the executor receives no more tasks
    inflight_full      TINYINT        NOT NULL,
    -- age of the task received last, of the topic that is furthest behind
    oldest_task_age_ms BIGINT         NOT NULL,
    opened_ms          BIGINT         NOT NULL,
    renewed_ms         BIGINT         NOT NULL,
    -- 0: the session is alive
    ended_ms           BIGINT         NOT NULL,
    -- acked_*: the position in outcomes up to which the events of the session are published
    acked_finished_ms  BIGINT         NOT NULL DEFAULT 0,
    acked_timer_id     BIGINT         NOT NULL DEFAULT 0,
    acked_due_ms       BIGINT         NOT NULL DEFAULT 0,
    acked_series       BIGINT         NOT NULL DEFAULT 0,
    -- 1: the session has ended and all its events are published
    events_acked       TINYINT        NOT NULL DEFAULT 0,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- signing_keys has the keys that sign the callbacks of an app.
CREATE TABLE signing_keys (
    id         BIGINT         NOT NULL,
    app_id     BIGINT         NOT NULL,
    -- hmac or ed25519
    kind       VARBINARY(16)  NOT NULL,
    -- encrypted
    secret     BLOB           NOT NULL,
    -- public key of ed25519
    public     VARBINARY(255) NOT NULL,
    created_ms BIGINT         NOT NULL,
    PRIMARY KEY (id),
    KEY by_app (app_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- api_keys has the keys of the API. Those for all apps belong to the app with the empty name.
CREATE TABLE api_keys (
    -- public part of the key
    id         VARBINARY(64)  NOT NULL,
    app_id     BIGINT         NOT NULL,
    name       VARBINARY(255) NOT NULL,
    scope      VARBINARY(16)  NOT NULL,
    -- of the secret part
    hash       VARBINARY(64)  NOT NULL,
    created_ms BIGINT         NOT NULL,
    -- 0: the key is valid
    revoked_ms BIGINT         NOT NULL,
    PRIMARY KEY (id),
    KEY by_app (app_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- ended_sign_ins has since when sessions of a person at the page count. The sessions are in cookies.
CREATE TABLE ended_sign_ins (
    -- the identity provider
    issuer    VARBINARY(512) NOT NULL,
    -- its id of the person
    subject   VARBINARY(255) NOT NULL,
    -- sessions that began before are ended
    before_ms BIGINT         NOT NULL,
    PRIMARY KEY (issuer, subject),
    KEY by_before (before_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- zone_rules has the rules of time zones by which timers may have been planned.
CREATE TABLE zone_rules (
    -- SHA-256 of zones
    hash     VARBINARY(64) NOT NULL,
    -- JSON: the fingerprint of each zone by its name
    zones    MEDIUMBLOB    NOT NULL,
    added_ms BIGINT        NOT NULL,
    PRIMARY KEY (hash)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- deployment has one row: the name of this database. Processes compare it over Redis and Pulsar.
CREATE TABLE deployment (
    id    TINYINT       NOT NULL,
    -- random
    token VARBINARY(64) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT INTO deployment (id, token) VALUES (1, UUID()) ON DUPLICATE KEY UPDATE id = deployment.id;

-- processes has the processes of the deployment, and the rules of time zones they plan by.
CREATE TABLE processes (
    id          BIGINT         NOT NULL,
    name        VARBINARY(255) NOT NULL,
    -- of the time zone data
    version     VARBINARY(64)  NOT NULL,
    -- of the rules, as in zone_rules
    hash        VARBINARY(64)  NOT NULL,
    -- 1: it expands the timers that others made
    is_migrator TINYINT        NOT NULL,
    -- JSON: the settings that must be the same in all processes, by name
    settings    MEDIUMBLOB     NOT NULL,
    renewed_ms  BIGINT         NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- zone_replan has one row: the walk through all timers that marks those to be replanned.
CREATE TABLE zone_replan (
    id            TINYINT       NOT NULL,
    -- the rules that the walk is for
    hash          VARBINARY(64) NOT NULL,
    -- the walk has passed all timers up to this id
    last_timer_id BIGINT        NOT NULL,
    -- other rules in use since it began: 0 by a migrator, 1 by others, 2 by nobody
    exclusivity   TINYINT       NOT NULL,
    done          TINYINT       NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT INTO zone_replan (id, hash, last_timer_id, exclusivity, done) VALUES (1, '', 0, 0, 0)
ON DUPLICATE KEY UPDATE id = zone_replan.id;

-- schema_readers tells which programs may use a schema that is later than theirs. Each later
-- migration adds its row. A program refuses a later migration that has no row, or whose min_reader
-- is greater than the program's schema version.
CREATE TABLE schema_readers (
    -- of the migration
    version    BIGINT NOT NULL,
    -- the oldest schema version whose programs may use this schema
    min_reader BIGINT NOT NULL,
    PRIMARY KEY (version)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
