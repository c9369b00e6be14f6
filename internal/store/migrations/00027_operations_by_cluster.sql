-- +goose Up
-- What happened to one database is asked for by its owner.
CREATE INDEX operations_cluster ON operations (cluster_id, id);

-- +goose Down
DROP INDEX operations_cluster;
