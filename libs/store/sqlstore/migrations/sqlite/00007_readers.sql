-- Which programs run on a schema that is later than theirs. Each later migration adds its row: min_reader is the least schema that a program
-- is made for to run on this one. A program refuses a database with a later migration that has no row, or a greater min_reader.

-- +goose Up
CREATE TABLE schema_readers (
    version    INTEGER NOT NULL PRIMARY KEY,
    min_reader INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
