-- Names are VARBINARY: compared byte by byte, with no collation to fold case or to ignore trailing spaces.
-- All times are unix milliseconds.

-- +goose Up
CREATE TABLE apps (
    id         BIGINT        NOT NULL AUTO_INCREMENT,
    name       VARBINARY(64) NOT NULL,
    frozen     TINYINT       NOT NULL DEFAULT 0,
    created_ms BIGINT        NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY by_name (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- live_name is the name while the timer lives, NULL once it is deleted: NULLs do not collide, so the name is free at once.
-- maker is a random mark of the call that made the row: it tells whose row it is when two processes made the same id.
CREATE TABLE timers (
    id              BIGINT         NOT NULL,
    app_id          BIGINT         NOT NULL,
    name            VARBINARY(128) NOT NULL,
    live_name       VARBINARY(128) NULL,
    status          TINYINT        NOT NULL,
    version         INT            NOT NULL,
    active_since_ms BIGINT         NOT NULL,
    active_epoch    BIGINT         NOT NULL,
    next_due_ms     BIGINT         NOT NULL,
    expand_at_ms    BIGINT         NOT NULL,
    fires_created      BIGINT         NOT NULL,
    maker           BIGINT         NOT NULL,
    created_ms      BIGINT         NOT NULL,
    updated_ms      BIGINT         NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY by_live_name (app_id, live_name),
    KEY by_expand (status, expand_at_ms),
    KEY by_app (app_id, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE timer_versions (
    timer_id   BIGINT     NOT NULL,
    version    INT        NOT NULL,
    hash       BINARY(32) NOT NULL,
    definition MEDIUMBLOB NOT NULL,
    PRIMARY KEY (timer_id, version)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE timer_changes (
    seq      BIGINT NOT NULL AUTO_INCREMENT,
    timer_id BIGINT NOT NULL,
    at_ms    BIGINT NOT NULL,
    PRIMARY KEY (seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE idempotency (
    app_id   BIGINT         NOT NULL,
    idem_key VARBINARY(255) NOT NULL,
    hash     VARBINARY(64)  NOT NULL,
    timer_id BIGINT         NOT NULL,
    maker    BIGINT         NOT NULL,
    at_ms    BIGINT         NOT NULL,
    PRIMARY KEY (app_id, idem_key),
    KEY by_at (at_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Open fires only. Neighbours in time share pages, and a claim, which writes owner, changes no index.
CREATE TABLE fires (
    due_ms   BIGINT   NOT NULL,
    timer_id BIGINT   NOT NULL,
    series   BIGINT   NOT NULL,
    run_at_minute  INT      NOT NULL,
    bucket   INT      NOT NULL,
    run_at_ms   BIGINT   NOT NULL,
    app_id   BIGINT   NOT NULL,
    version  INT      NOT NULL,
    epoch    BIGINT   NOT NULL,
    cause    TINYINT UNSIGNED NOT NULL,
    state    TINYINT UNSIGNED NOT NULL,
    attempt  INT      NOT NULL,
    late_ms  BIGINT   NOT NULL,
    rev      INT      NOT NULL,
    owner    BIGINT   NOT NULL DEFAULT 0,
    sweeps   INT      NOT NULL DEFAULT 0,
    PRIMARY KEY (due_ms, timer_id, series),
    KEY by_run (run_at_minute, bucket, run_at_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Partitioned by the day of the finish. Keep cuts days off pmax ahead of time and drops the old ones; a row always finds a
-- partition, whoever forgets to.
CREATE TABLE outcomes (
    finished_ms BIGINT NOT NULL,
    timer_id    BIGINT NOT NULL,
    due_ms      BIGINT NOT NULL,
    series      BIGINT NOT NULL,
    until_ms    BIGINT NOT NULL,
    fires       BIGINT NOT NULL,
    run_at_ms      BIGINT NOT NULL,
    app_id      BIGINT NOT NULL,
    version     INT    NOT NULL,
    epoch       BIGINT NOT NULL,
    cause       TINYINT UNSIGNED NOT NULL,
    rev         INT    NOT NULL,
    owner       BIGINT NOT NULL,
    kind        VARCHAR(16) CHARACTER SET ascii NOT NULL,
    reason      VARCHAR(32) CHARACTER SET ascii NOT NULL,
    attempts    INT    NOT NULL,
    lateness_ms BIGINT NOT NULL,
    status_code INT    NOT NULL,
    duration_ms BIGINT NOT NULL,
    PRIMARY KEY (finished_ms, timer_id, due_ms, series),
    KEY by_timer (timer_id, due_ms, series)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin
PARTITION BY RANGE (finished_ms) (PARTITION pmax VALUES LESS THAN MAXVALUE);

-- finished_ms is the end of the attempt. Texts are VARBINARY: what a receiver answered is kept as it is.
CREATE TABLE attempts (
    finished_ms BIGINT NOT NULL,
    timer_id    BIGINT NOT NULL,
    due_ms      BIGINT NOT NULL,
    series      BIGINT NOT NULL,
    n           INT    NOT NULL,
    start_ms    BIGINT NOT NULL,
    status_code INT    NOT NULL,
    error       VARBINARY(512) NOT NULL,
    excerpt     VARBINARY(512) NOT NULL,
    PRIMARY KEY (finished_ms, timer_id, due_ms, series, n),
    KEY by_timer (timer_id, due_ms, series)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin
PARTITION BY RANGE (finished_ms) (PARTITION pmax VALUES LESS THAN MAXVALUE);

CREATE TABLE minutes (
    minute   BIGINT  NOT NULL,
    buckets  INT     NOT NULL,
    estimate BIGINT  NOT NULL,
    frozen   TINYINT NOT NULL DEFAULT 0,
    PRIMARY KEY (minute)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE slices (
    minute   BIGINT  NOT NULL,
    bucket   INT     NOT NULL,
    token    BIGINT  NOT NULL,
    until_ms BIGINT  NOT NULL,
    holder   BIGINT  NOT NULL,
    done     TINYINT NOT NULL,
    PRIMARY KEY (minute, bucket)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE cursors (
    name   VARBINARY(32) NOT NULL,
    minute BIGINT        NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- ended_ms is 0 while the session lives.
CREATE TABLE sessions (
    id             BIGINT         NOT NULL,
    kind           VARBINARY(16)  NOT NULL,
    name           VARBINARY(255) NOT NULL,
    renewals       BIGINT         NOT NULL,
    inflight_full     TINYINT        NOT NULL,
    oldest_task_ms BIGINT         NOT NULL,
    opened_ms      BIGINT         NOT NULL,
    renewed_ms     BIGINT         NOT NULL,
    ended_ms       BIGINT         NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
