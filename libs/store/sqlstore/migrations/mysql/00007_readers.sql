-- Which programs run on a schema that is later than theirs. Each later migration adds its row: min_reader is the least schema that a program
-- is made for to run on this one. A program refuses a database with a later migration that has no row, or a greater min_reader.

-- +goose Up
CREATE TABLE IF NOT EXISTS schema_readers (
    version    BIGINT NOT NULL,
    min_reader BIGINT NOT NULL,
    PRIMARY KEY (version)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
