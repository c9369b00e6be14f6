-- +goose Up
-- Whom the monitoring service alerts.
CREATE TABLE contacts (
    id              bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT contacts_pkey PRIMARY KEY,
    account_id      bigint NOT NULL CONSTRAINT contacts_account_fkey REFERENCES accounts (id),
    name            text NOT NULL,
    email           text NOT NULL,
    group_name      text,
    phone_primary   text,
    phone_secondary text,
    created         timestamptz NOT NULL,
    updated         timestamptz NOT NULL
);
CREATE INDEX contacts_account ON contacts (account_id, group_name);

-- What an account has one of: the data key that its credentials are sealed with,
-- and the key pair that support staff log in with.
CREATE TABLE account_keys (
    account_id bigint NOT NULL CONSTRAINT account_keys_account_fkey REFERENCES accounts (id),
    name       text NOT NULL CONSTRAINT account_keys_name_check CHECK (name IN ('data', 'ssh')),
    sealed     bytea NOT NULL,
    public     text NOT NULL DEFAULT '',
    created    timestamptz NOT NULL,
    CONSTRAINT account_keys_pkey PRIMARY KEY (account_id, name)
);

CREATE TABLE credentials (
    id              bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT credentials_pkey PRIMARY KEY,
    account_id      bigint NOT NULL CONSTRAINT credentials_account_fkey REFERENCES accounts (id),
    label           text NOT NULL,
    sealed_username bytea,
    sealed_password bytea NOT NULL,
    last_decrypted  timestamptz,
    created         timestamptz NOT NULL,
    updated         timestamptz NOT NULL,
    CONSTRAINT credentials_label_unique UNIQUE (account_id, label)
);

-- Who of the staff read which credential, when and what for. The credential may be gone.
CREATE TABLE credential_reveals (
    id            bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT credential_reveals_pkey PRIMARY KEY,
    account_id    bigint NOT NULL CONSTRAINT credential_reveals_account_fkey REFERENCES accounts (id),
    credential_id bigint NOT NULL,
    label         text NOT NULL,
    staff         text NOT NULL,
    purpose       text NOT NULL,
    created       timestamptz NOT NULL
);
CREATE INDEX credential_reveals_account ON credential_reveals (account_id, id);

-- Events are of databases, unless they say of what else.
ALTER TABLE operations ADD COLUMN entity_type text NOT NULL DEFAULT 'database', ADD COLUMN entity_id bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE operations DROP COLUMN entity_type, DROP COLUMN entity_id;
DROP TABLE credential_reveals, credentials, account_keys, contacts;
