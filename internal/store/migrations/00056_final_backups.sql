-- +goose Up
-- Until when the last backup of a deleted database is kept for its owner; NULL without any.
ALTER TABLE clusters ADD COLUMN final_until timestamptz;

-- +goose Down
ALTER TABLE clusters DROP COLUMN final_until;
