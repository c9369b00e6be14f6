-- +goose Up
-- How often a backup's verification has taken too long since it was last proven to
-- restore, and when the next one may begin.
ALTER TABLE backups ADD COLUMN verify_tries int NOT NULL DEFAULT 0, ADD COLUMN verify_after timestamptz;

-- +goose Down
ALTER TABLE backups DROP COLUMN verify_tries, DROP COLUMN verify_after;
