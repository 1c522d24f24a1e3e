-- Delivery: priorities and targets of fires, classes of failures, settings and keys of apps, announcements. Only additions, each with a default: the release
-- before runs on this schema too. What it records as failed is not in failures: it can be redriven by naming its timer or the fire.

-- +goose Up
-- done: bit i says that the fire's target i has taken it.
ALTER TABLE fires
    ADD COLUMN lane TINYINT UNSIGNED NOT NULL DEFAULT 0,
    ADD COLUMN done INT UNSIGNED     NOT NULL DEFAULT 0;

-- redriven: the series of the latest redrive, 0 none.
ALTER TABLE outcomes
    ADD COLUMN failure  VARCHAR(16) CHARACTER SET ascii NOT NULL DEFAULT '',
    ADD COLUMN redriven BIGINT                          NOT NULL DEFAULT 0;

-- Several targets of one attempt may end in the same millisecond.
ALTER TABLE attempts
    ADD COLUMN failure VARCHAR(16) CHARACTER SET ascii NOT NULL DEFAULT '',
    ADD COLUMN target  VARBINARY(32)                   NOT NULL DEFAULT '',
    DROP PRIMARY KEY,
    ADD PRIMARY KEY (finished_ms, timer_id, due_ms, series, n, target);

-- Which outcomes of an app are failed, for the search by app. A table of its own, and not an index on outcomes, for nearly all outcomes are none of
-- them, and each would pay for the index.
CREATE TABLE failures (
    app_id      BIGINT NOT NULL,
    finished_ms BIGINT NOT NULL,
    timer_id    BIGINT NOT NULL,
    due_ms      BIGINT NOT NULL,
    series      BIGINT NOT NULL,
    PRIMARY KEY (app_id, finished_ms, timer_id, due_ms, series),
    KEY by_finished (finished_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT INTO failures (app_id, finished_ms, timer_id, due_ms, series)
SELECT app_id, finished_ms, timer_id, due_ms, series FROM outcomes WHERE kind = 'failed'
ON DUPLICATE KEY UPDATE series = failures.series;

-- settings is JSON, NULL none.
ALTER TABLE apps
    ADD COLUMN settings         MEDIUMBLOB NULL,
    ADD COLUMN settings_version BIGINT     NOT NULL DEFAULT 0;

-- secret is sealed text.
CREATE TABLE signing_keys (
    id         BIGINT         NOT NULL,
    app_id     BIGINT         NOT NULL,
    kind       VARBINARY(16)  NOT NULL,
    secret     BLOB           NOT NULL,
    public     VARBINARY(255) NOT NULL,
    created_ms BIGINT         NOT NULL,
    PRIMARY KEY (id),
    KEY by_app (app_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The deployment's own keys are those of the app with the empty name. revoked_ms is 0 while the key lives.
CREATE TABLE api_keys (
    id         VARBINARY(64)  NOT NULL,
    app_id     BIGINT         NOT NULL,
    name       VARBINARY(255) NOT NULL,
    scope      VARBINARY(16)  NOT NULL,
    hash       VARBINARY(64)  NOT NULL,
    created_ms BIGINT         NOT NULL,
    revoked_ms BIGINT         NOT NULL,
    PRIMARY KEY (id),
    KEY by_app (app_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- announced_*: up to where the session's outcomes are published; announced: all are, and the session has ended.
ALTER TABLE sessions
    ADD COLUMN acked_ms     BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN acked_timer  BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN acked_due_ms BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN acked_series BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN announced        TINYINT NOT NULL DEFAULT 0;
