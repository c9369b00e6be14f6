-- +goose Up
CREATE TABLE accounts (
    id      bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT accounts_pkey PRIMARY KEY,
    name    text NOT NULL,
    created timestamptz NOT NULL,
    CONSTRAINT accounts_name_unique UNIQUE (name)
);

CREATE TABLE users (
    id            bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT users_pkey PRIMARY KEY,
    account_id    bigint NOT NULL CONSTRAINT users_account_fkey REFERENCES accounts (id),
    username      text NOT NULL,
    email         text NOT NULL,
    restricted    boolean NOT NULL,
    add_databases boolean NOT NULL,
    created       timestamptz NOT NULL,
    CONSTRAINT users_username_unique UNIQUE (account_id, username)
);

CREATE TABLE tokens (
    id      bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT tokens_pkey PRIMARY KEY,
    user_id bigint NOT NULL CONSTRAINT tokens_user_fkey REFERENCES users (id) ON DELETE CASCADE,
    label   text NOT NULL,
    prefix  text NOT NULL,
    hash    bytea NOT NULL,
    scopes  text NOT NULL,
    created timestamptz NOT NULL,
    expiry  timestamptz,
    CONSTRAINT tokens_hash_unique UNIQUE (hash)
);
CREATE INDEX tokens_user ON tokens (user_id);

CREATE TABLE clusters (
    id               bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT clusters_pkey PRIMARY KEY,
    account_id       bigint NOT NULL CONSTRAINT clusters_account_fkey REFERENCES accounts (id),
    label            text NOT NULL,
    engine           text NOT NULL CONSTRAINT clusters_engine_check CHECK (engine IN ('mysql', 'postgresql')),
    series           text NOT NULL,
    region           text NOT NULL,
    type             text NOT NULL,
    size             integer NOT NULL CONSTRAINT clusters_size_check CHECK (size IN (1, 3)),
    encrypted        boolean NOT NULL,
    ssl_connection   boolean NOT NULL,
    allow_list       text[] NOT NULL,
    replication_type text NOT NULL,
    commit_type      text NOT NULL,
    updates          jsonb NOT NULL,
    status           text NOT NULL CONSTRAINT clusters_status_check CHECK (status IN (
        'provisioning', 'active', 'suspending', 'suspended', 'resuming', 'restoring', 'failed', 'degraded', 'updating', 'backing_up')),
    port             integer NOT NULL CONSTRAINT clusters_port_check CHECK (port BETWEEN 1 AND 65535),
    host_primary     text NOT NULL DEFAULT '',
    host_secondary   text NOT NULL DEFAULT '',
    members          jsonb NOT NULL DEFAULT '{}',
    installation     text NOT NULL DEFAULT '',
    server_version   text NOT NULL DEFAULT '',
    used_bytes       bigint,
    read_only        boolean NOT NULL DEFAULT false,
    generation       bigint NOT NULL DEFAULT 1,
    created          timestamptz NOT NULL,
    updated          timestamptz NOT NULL,
    deleted          timestamptz,
    CONSTRAINT clusters_port_unique UNIQUE (port)
);
CREATE UNIQUE INDEX clusters_label_unique ON clusters (account_id, label) WHERE deleted IS NULL;

-- What a restricted user may do with a database.
CREATE TABLE grants (
    user_id    bigint NOT NULL CONSTRAINT grants_user_fkey REFERENCES users (id) ON DELETE CASCADE,
    cluster_id bigint NOT NULL CONSTRAINT grants_cluster_fkey REFERENCES clusters (id) ON DELETE CASCADE,
    permission text NOT NULL CONSTRAINT grants_permission_check CHECK (permission IN ('read_only', 'read_write')),
    CONSTRAINT grants_pkey PRIMARY KEY (user_id, cluster_id)
);
CREATE INDEX grants_cluster ON grants (cluster_id);

CREATE TABLE cluster_secrets (
    cluster_id bigint NOT NULL CONSTRAINT cluster_secrets_cluster_fkey REFERENCES clusters (id) ON DELETE CASCADE,
    name       text NOT NULL,
    sealed     bytea NOT NULL,
    CONSTRAINT cluster_secrets_pkey PRIMARY KEY (cluster_id, name)
);

-- The account of every finite change: what workers carry out, and what
-- /v4/account/events shows. The cluster may be gone, so no foreign key.
CREATE TABLE operations (
    id         bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT operations_pkey PRIMARY KEY,
    account_id bigint NOT NULL CONSTRAINT operations_account_fkey REFERENCES accounts (id),
    cluster_id bigint NOT NULL,
    label      text NOT NULL,
    engine     text NOT NULL,
    action     text NOT NULL,
    status     text NOT NULL CONSTRAINT operations_status_check CHECK (status IN ('scheduled', 'started', 'finished', 'failed', 'notification')),
    username   text NOT NULL,
    params     jsonb NOT NULL,
    percent    integer NOT NULL CONSTRAINT operations_percent_check CHECK (percent BETWEEN 0 AND 100),
    message    text NOT NULL,
    attempt    integer NOT NULL DEFAULT 0,
    created    timestamptz NOT NULL,
    started    timestamptz,
    finished   timestamptz,
    seen       boolean NOT NULL DEFAULT false,
    read       boolean NOT NULL DEFAULT false,
    -- When a sweep should wake a worker for it, if nobody has by then.
    wake_at    timestamptz,
    CONSTRAINT operations_finished_check CHECK ((status IN ('scheduled', 'started')) = (finished IS NULL))
);
CREATE INDEX operations_account ON operations (account_id, id);
CREATE INDEX operations_unfinished ON operations (cluster_id) WHERE finished IS NULL;
CREATE INDEX operations_wake ON operations (wake_at) WHERE finished IS NULL;

-- +goose Down
DROP TABLE operations, cluster_secrets, grants, clusters, tokens, users, accounts;
