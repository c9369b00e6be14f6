-- +goose Up
-- Databases that are brought over from servers elsewhere. The source's password is sealed with the account's key, and gone once the migration has ended.
CREATE TABLE migrations (
    id              bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT migrations_pkey PRIMARY KEY,
    account_id      bigint NOT NULL CONSTRAINT migrations_account_fkey REFERENCES accounts (id),
    cluster_id      bigint NOT NULL CONSTRAINT migrations_cluster_fkey REFERENCES clusters (id) ON DELETE CASCADE,
    host            text NOT NULL,
    port            integer NOT NULL CONSTRAINT migrations_port_check CHECK (port BETWEEN 1 AND 65535),
    username        text NOT NULL,
    tls             text NOT NULL CONSTRAINT migrations_tls_check CHECK (tls IN ('verify', 'require', 'off')),
    ca              text NOT NULL,
    sealed_password bytea,
    mode            text NOT NULL CONSTRAINT migrations_mode_check CHECK (mode = 'dump'),
    databases       jsonb NOT NULL,
    status          text NOT NULL CONSTRAINT migrations_status_check CHECK (status IN ('pending', 'running', 'canceling', 'finished', 'failed', 'canceled')),
    progress        jsonb NOT NULL DEFAULT '{}',
    problem         text NOT NULL DEFAULT '',
    created         timestamptz NOT NULL,
    finished        timestamptz,
    CONSTRAINT migrations_ended_check CHECK ((finished IS NOT NULL) = (status IN ('finished', 'failed', 'canceled'))),
    CONSTRAINT migrations_password_check CHECK ((sealed_password IS NULL) = (finished IS NOT NULL))
);
CREATE INDEX migrations_cluster ON migrations (cluster_id, id);
-- One at a time.
CREATE UNIQUE INDEX migrations_running_unique ON migrations (cluster_id) WHERE finished IS NULL;

-- +goose Down
DROP TABLE migrations;
