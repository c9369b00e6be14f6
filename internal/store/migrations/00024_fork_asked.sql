-- +goose Up
-- The moment that a fork was asked for, where one was: fork_time is what the data
-- is of, which can be earlier.
ALTER TABLE clusters ADD COLUMN fork_asked timestamptz;

-- +goose Down
ALTER TABLE clusters DROP COLUMN fork_asked;
