-- Versions, pauses, calendars, backfills and turns. Only additions, each with a default: the release before runs on this schema too. It knows
-- nothing of the new columns, so what it writes leaves them at 0, which every reader takes for "not known": anchor_ms and
-- version_ms of a timer that was active before are its created_ms then.

-- +goose Up
ALTER TABLE apps
    ADD COLUMN freeze_reason VARBINARY(256) NOT NULL DEFAULT '',
    ADD COLUMN frozen_ms     BIGINT         NOT NULL DEFAULT 0;

-- replan: 0 nothing to do, 1 the definition was edited while the timer was not active, 2 a calendar changed. running_*: the fire that has the
-- turn, 0 none. caught_*: the fire that is the catch-up (its due instant), and the last instant that it covers. plan_version:
-- since which version the chain of a fixed delay goes on; last_serial_due_ms: the due instant of its latest fire.
ALTER TABLE timers
    ADD COLUMN anchor_ms       BIGINT         NOT NULL DEFAULT 0,
    ADD COLUMN version_ms      BIGINT         NOT NULL DEFAULT 0,
    ADD COLUMN replan          TINYINT        NOT NULL DEFAULT 0,
    ADD COLUMN pause_reason    VARBINARY(256) NOT NULL DEFAULT '',
    ADD COLUMN paused_until_ms BIGINT         NOT NULL DEFAULT 0,
    ADD COLUMN running_due_ms  BIGINT         NOT NULL DEFAULT 0,
    ADD COLUMN running_series  BIGINT         NOT NULL DEFAULT 0,
    ADD COLUMN caught_by_ms    BIGINT         NOT NULL DEFAULT 0,
    ADD COLUMN caught_to_ms    BIGINT         NOT NULL DEFAULT 0,
    ADD COLUMN plan_version    INT            NOT NULL DEFAULT 0,
    ADD COLUMN last_serial_due_ms        BIGINT         NOT NULL DEFAULT 0;

-- app_id is 0 but for an entry about a whole app, whose timer_id is 0.
ALTER TABLE timer_changes ADD COLUMN app_id BIGINT NOT NULL DEFAULT 0;

-- The fires that wait for their turn, guarded by the row locks of their timers. A row each, and not a list in the timer's row: a list of
-- 10,000 would be written anew with every fire that joins or leaves.
CREATE TABLE waiting (
    timer_id BIGINT NOT NULL,
    due_ms   BIGINT NOT NULL,
    series   BIGINT NOT NULL,
    PRIMARY KEY (timer_id, due_ms, series)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE calendars (
    app_id     BIGINT         NOT NULL,
    name       VARBINARY(128) NOT NULL,
    version    BIGINT         NOT NULL,
    content    MEDIUMBLOB     NOT NULL,
    updated_ms BIGINT         NOT NULL,
    PRIMARY KEY (app_id, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Which live timers name a calendar.
CREATE TABLE timer_calendars (
    app_id   BIGINT         NOT NULL,
    name     VARBINARY(128) NOT NULL,
    timer_id BIGINT         NOT NULL,
    PRIMARY KEY (app_id, name, timer_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- status: 0 running, 1 done, 2 cancelled.
CREATE TABLE backfills (
    id           BIGINT  NOT NULL,
    app_id       BIGINT  NOT NULL,
    timer_id     BIGINT  NOT NULL,
    from_ms      BIGINT  NOT NULL,
    to_ms        BIGINT  NOT NULL,
    next_ms      BIGINT  NOT NULL,
    made         BIGINT  NOT NULL,
    status       TINYINT NOT NULL,
    expand_at_ms BIGINT  NOT NULL,
    created_ms   BIGINT  NOT NULL,
    PRIMARY KEY (id),
    KEY by_expand (status, expand_at_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- When the version came into force. 0: written by the release before, which knew one version only.
ALTER TABLE timer_versions ADD COLUMN made_ms BIGINT NOT NULL DEFAULT 0;
