-- Plans of versions. Only an addition with a default: the release before runs on this schema too.

-- +goose Up
-- plan_version: since which version the instants are the same, and the fires that were made of them. NULL: of the release before, which moved the open fires
-- with each version; then since this one.
ALTER TABLE timer_versions
    ADD COLUMN plan_version INT NULL;
