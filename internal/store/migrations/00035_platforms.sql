-- +goose Up
-- Which platform a database was made on: its region must go on being there.
ALTER TABLE clusters ADD COLUMN platform text NOT NULL DEFAULT 'host';

-- +goose Down
ALTER TABLE clusters DROP COLUMN platform;
