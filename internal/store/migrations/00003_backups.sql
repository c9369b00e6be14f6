-- +goose Up
CREATE TABLE backups (
    id           bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT backups_pkey PRIMARY KEY,
    account_id   bigint NOT NULL CONSTRAINT backups_account_fkey REFERENCES accounts (id),
    cluster_id   bigint NOT NULL CONSTRAINT backups_cluster_fkey REFERENCES clusters (id) ON DELETE CASCADE,
    type         text NOT NULL CONSTRAINT backups_type_check CHECK (type IN ('snapshot', 'auto')),
    label        text NOT NULL,
    target       text NOT NULL CONSTRAINT backups_target_check CHECK (target IN ('primary', 'secondary')),
    state        text NOT NULL CONSTRAINT backups_state_check CHECK (state IN ('running', 'complete', 'failed', 'deleting')),
    created      timestamptz NOT NULL,
    finished     timestamptz,
    bytes        bigint NOT NULL DEFAULT 0,
    stored_bytes bigint NOT NULL DEFAULT 0,
    installation text NOT NULL DEFAULT '',
    verified     timestamptz,
    problem      text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX backups_label_unique ON backups (cluster_id, label) WHERE state <> 'deleting';
CREATE UNIQUE INDEX backups_running_unique ON backups (cluster_id) WHERE state = 'running';

-- A restore brought back a root password that is older than the one the API
-- answers: the database stays failed until it is restored again, or the
-- operator lets today's password be set.
ALTER TABLE clusters ADD COLUMN locked_out boolean NOT NULL DEFAULT false;
-- When the last automatic backup began, also if it is gone by now.
ALTER TABLE clusters ADD COLUMN last_auto timestamptz;

-- +goose Down
ALTER TABLE clusters DROP COLUMN locked_out, DROP COLUMN last_auto;
DROP TABLE backups;
