-- +goose Up
-- ref is what a platform that keeps backups itself finds one by; '' for those in steward's archive.
ALTER TABLE backups ADD COLUMN ref text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE backups DROP COLUMN ref;
