-- Time zones: by which rules timers may have been planned, which processes plan by them, and how
-- far a replan of timers is.

-- +goose Up
-- zones is JSON: the fingerprint of each zone by its name. hash is that of zones.
CREATE TABLE zone_rules (
    hash     VARBINARY(64) NOT NULL,
    zones    MEDIUMBLOB    NOT NULL,
    added_ms BIGINT        NOT NULL,
    PRIMARY KEY (hash)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE zone_holders (
    id      BIGINT         NOT NULL,
    name    VARBINARY(255) NOT NULL,
    version VARBINARY(64)  NOT NULL,
    hash    VARBINARY(64)  NOT NULL,
    expands TINYINT        NOT NULL,
    seen_ms BIGINT         NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- One row: the walk through all timers that sets their Replan. hash: the rules that it is for;
-- up_to: the timer up to which it has come; alone: which processes with other rules were there
-- since it began (0 migrators, 1 others, 2 none); done: it has been through all timers.
CREATE TABLE zone_replan (
    id    TINYINT       NOT NULL,
    hash  VARBINARY(64) NOT NULL,
    up_to BIGINT        NOT NULL,
    alone TINYINT       NOT NULL,
    done  TINYINT       NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT INTO zone_replan (id, hash, up_to, alone, done) VALUES (1, '', 0, 0, 0) ON DUPLICATE KEY UPDATE id = zone_replan.id;
