-- +goose Up
-- The server's settings that were chosen, by the names of package parameter.
ALTER TABLE clusters ADD COLUMN engine_config jsonb NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE clusters DROP COLUMN engine_config;
