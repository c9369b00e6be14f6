-- +goose Up
-- Which database one was made from, and the moment that its data is of: what was
-- asked for, or else, once it is known, that of the backup. The source may be gone.
ALTER TABLE clusters ADD COLUMN fork_source bigint, ADD COLUMN fork_time timestamptz;

-- +goose Down
ALTER TABLE clusters DROP COLUMN fork_source, DROP COLUMN fork_time;
