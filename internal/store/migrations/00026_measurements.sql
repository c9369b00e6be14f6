-- +goose Up
-- What was measured of databases, as it comes in: a row has half a minute of all metrics of a node. A server that was
-- started anew may bring a second one. No reference: history isn't worth a look at the database's row for each.
CREATE TABLE measured_slices (
    cluster_id bigint NOT NULL,
    started    timestamptz NOT NULL,
    node       smallint NOT NULL,
    packed     bytea NOT NULL
);
CREATE INDEX measured_slices_cluster ON measured_slices (cluster_id, started);

-- An hour of one metric of a node in steps of ten seconds, and a day in steps of five minutes. A partition a day; whole
-- days are dropped.
CREATE TABLE measured_fine (
    cluster_id bigint NOT NULL,
    started    timestamptz NOT NULL,
    metric     smallint NOT NULL,
    node       smallint NOT NULL,
    packed     bytea NOT NULL,
    CONSTRAINT measured_fine_pkey PRIMARY KEY (cluster_id, metric, node, started)
) PARTITION BY RANGE (started);
CREATE TABLE measured_medium (
    cluster_id bigint NOT NULL,
    started    timestamptz NOT NULL,
    metric     smallint NOT NULL,
    node       smallint NOT NULL,
    packed     bytea NOT NULL,
    CONSTRAINT measured_medium_pkey PRIMARY KEY (cluster_id, metric, node, started)
) PARTITION BY RANGE (started);

-- Ten days in steps of an hour.
CREATE TABLE measured_coarse (
    cluster_id bigint NOT NULL,
    started    timestamptz NOT NULL,
    metric     smallint NOT NULL,
    node       smallint NOT NULL,
    packed     bytea NOT NULL,
    CONSTRAINT measured_coarse_pkey PRIMARY KEY (cluster_id, metric, node, started)
);
CREATE INDEX measured_coarse_started ON measured_coarse (started);

-- The days and tens of days that have been made of what is finer; step is in seconds.
CREATE TABLE measured_rollups (
    step    integer NOT NULL,
    started timestamptz NOT NULL,
    ended   timestamptz NOT NULL,
    CONSTRAINT measured_rollups_pkey PRIMARY KEY (step, started)
);

-- +goose Down
DROP TABLE measured_rollups, measured_coarse, measured_medium, measured_fine, measured_slices;
