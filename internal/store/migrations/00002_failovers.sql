-- +goose Up
-- How many changes of the primary have been told of.
ALTER TABLE clusters ADD COLUMN failovers integer NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE clusters DROP COLUMN failovers;
