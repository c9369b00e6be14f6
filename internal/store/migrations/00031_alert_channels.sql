-- +goose Up
-- Where an account has its alerts told beside its contacts. What is secret is sealed with the account's data key; shown is the
-- address without it. Numbers below 1000 are steward's.
CREATE TABLE alert_channels (
    id         bigint GENERATED ALWAYS AS IDENTITY (START WITH 1000) CONSTRAINT alert_channels_pkey PRIMARY KEY,
    account_id bigint NOT NULL CONSTRAINT alert_channels_account_fkey REFERENCES accounts (id) ON DELETE CASCADE,
    label      text NOT NULL,
    kind       text NOT NULL CONSTRAINT alert_channels_kind_check CHECK (kind IN ('email', 'webhook', 'slack')),
    addresses  text[] NOT NULL,
    region     text NOT NULL,
    shown      text NOT NULL,
    sealed_url    bytea,
    sealed_secret bytea,
    created    timestamptz NOT NULL,
    created_by text NOT NULL,
    updated    timestamptz NOT NULL,
    updated_by text NOT NULL,
    CONSTRAINT alert_channels_label_unique UNIQUE (account_id, label),
    CONSTRAINT alert_channels_url_check CHECK ((kind = 'email') = (sealed_url IS NULL))
);

-- +goose Down
DROP TABLE alert_channels;
