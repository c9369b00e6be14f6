-- +goose Up
-- What each database was on a day, by what it was meanwhile: for how long it ran and was suspended, and the most that it took. It outlives the
-- database, for who bills. Until when a database is counted is in its row; what is counted has no gap.
ALTER TABLE clusters ADD COLUMN metered timestamptz;
CREATE TABLE usage (
    cluster_id    bigint NOT NULL,
    day           date NOT NULL,
    type          text NOT NULL,
    size          integer NOT NULL,
    account_id    bigint NOT NULL,
    label         text NOT NULL,
    engine        text NOT NULL,
    running       double precision NOT NULL,
    suspended     double precision NOT NULL,
    used_bytes    bigint NOT NULL,
    backup_bytes  bigint NOT NULL,
    CONSTRAINT usage_pkey PRIMARY KEY (cluster_id, day, type, size)
);
CREATE INDEX usage_day ON usage (day, account_id);

-- +goose Down
DROP TABLE usage;
ALTER TABLE clusters DROP COLUMN metered;
