-- The same additions as on MySQL.

-- +goose Up
-- zones is JSON: the fingerprint of each zone by its name. hash is that of zones.
CREATE TABLE zone_rules (
    hash TEXT NOT NULL,
    zones BLOB NOT NULL,
    added_ms INTEGER NOT NULL,
    PRIMARY KEY (hash)
) STRICT;

CREATE TABLE zone_holders (
    id INTEGER NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    hash TEXT NOT NULL,
    expands INTEGER NOT NULL,
    seen_ms INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;

-- One row: the walk through all timers that sets their Replan. hash: the rules that it is for;
-- up_to: the timer up to which it has come; alone: which processes with other rules were there
-- since it began (0 migrators, 1 others, 2 none); done: it has been through all timers.
CREATE TABLE zone_replan (
    id INTEGER NOT NULL,
    hash TEXT NOT NULL,
    up_to INTEGER NOT NULL,
    alone INTEGER NOT NULL,
    done INTEGER NOT NULL,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;

INSERT INTO zone_replan (id, hash, up_to, alone, done) VALUES (1, '', 0, 0, 0);
