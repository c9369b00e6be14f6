-- +goose Up
-- What waits for the maintenance window, and the starts of the last windows whose
-- work was announced and begun.
ALTER TABLE clusters
    ADD COLUMN tasks jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN window_announced timestamptz,
    ADD COLUMN window_begun timestamptz;

-- +goose Down
ALTER TABLE clusters DROP COLUMN window_begun, DROP COLUMN window_announced, DROP COLUMN tasks;
