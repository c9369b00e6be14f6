-- +goose Up
-- The rules of alerts that accounts made, and what they changed of the defaults, which have the numbers below 10000.
CREATE SEQUENCE alert_rules_id START 10000;
CREATE TABLE alert_rules (
    account_id  bigint NOT NULL CONSTRAINT alert_rules_account_fkey REFERENCES accounts (id) ON DELETE CASCADE,
    id          bigint NOT NULL,
    label       text NOT NULL,
    description text NOT NULL,
    severity    smallint NOT NULL CONSTRAINT alert_rules_severity_check CHECK (severity BETWEEN 0 AND 3),
    enabled     boolean NOT NULL,
    criteria    jsonb NOT NULL,
    -- In seconds.
    period      integer NOT NULL,
    polling     integer NOT NULL,
    occurrences integer NOT NULL,
    scope       text NOT NULL CONSTRAINT alert_rules_scope_check CHECK (scope IN ('account', 'entity', 'region')),
    clusters    bigint[] NOT NULL,
    regions     text[] NOT NULL,
    channels    bigint[] NOT NULL,
    created     timestamptz NOT NULL,
    created_by  text NOT NULL,
    updated     timestamptz NOT NULL,
    updated_by  text NOT NULL,
    CONSTRAINT alert_rules_pkey PRIMARY KEY (account_id, id)
);

-- Whether an issue is told to the account's contacts: a rule may have channels of its own instead.
ALTER TABLE issues ADD COLUMN contacts boolean NOT NULL DEFAULT true;

-- +goose Down
ALTER TABLE issues DROP COLUMN contacts;
DROP TABLE alert_rules;
DROP SEQUENCE alert_rules_id;
