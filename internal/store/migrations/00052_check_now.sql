-- +goose Up
-- When somebody last asked for a check at once: whoever holds the shard sees it with the next change of it.
ALTER TABLE services ADD COLUMN check_asked timestamptz;

-- +goose Down
ALTER TABLE services DROP COLUMN check_asked;
