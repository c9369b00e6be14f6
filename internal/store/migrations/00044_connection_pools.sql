-- +goose Up
-- The connection pools of a database, sorted by label, and the port that all of them are reached at. It is drawn with the first pool from the same
-- range as those of databases, and stays until the database is removed.
ALTER TABLE clusters ADD COLUMN pools jsonb NOT NULL DEFAULT '[]';
ALTER TABLE clusters ADD COLUMN pool_port integer CONSTRAINT clusters_pool_port_check CHECK (pool_port BETWEEN 1 AND 65535);
ALTER TABLE clusters ADD CONSTRAINT clusters_pool_port_unique UNIQUE (pool_port);

-- +goose Down
ALTER TABLE clusters DROP COLUMN pool_port;
ALTER TABLE clusters DROP COLUMN pools;
