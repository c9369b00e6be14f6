-- +goose Up
-- Whether a database can't be deleted before this is taken back.
ALTER TABLE clusters ADD COLUMN protected boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE clusters DROP COLUMN protected;
