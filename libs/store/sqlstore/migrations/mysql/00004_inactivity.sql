-- When timers were not active, and which of their fires wait for that to end. Only additions, each
-- with a default: the release before runs on this schema too. What it deactivates has no stretch:
-- inactive_since_ms is 0 then, and what is due until the next activation counts as not due.

-- +goose Up
-- inactive_since_ms: when the present status other than active began. ended_ms: when the last call of the
-- schedule ended, of a timer whose fires take turns.
ALTER TABLE timers
    ADD COLUMN inactive_since_ms BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN ended_ms          BIGINT NOT NULL DEFAULT 0;

-- A stretch is [from_ms, until_ms); until_ms is the largest BIGINT while the end is not known.
-- status is as in timers. Guarded by the row locks of timers.
CREATE TABLE inactivities (
    timer_id BIGINT  NOT NULL,
    from_ms  BIGINT  NOT NULL,
    until_ms BIGINT  NOT NULL,
    status   TINYINT NOT NULL,
    PRIMARY KEY (timer_id, from_ms),
    KEY by_until (until_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Open fires that wait for their timer to be active, the run that each has then, and its revision
-- while it waits. Guarded by the row locks of timers.
CREATE TABLE deferred (
    timer_id BIGINT NOT NULL,
    due_ms   BIGINT NOT NULL,
    series   BIGINT NOT NULL,
    run_at_ms   BIGINT NOT NULL,
    rev      INT    NOT NULL,
    PRIMARY KEY (timer_id, due_ms, series)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
