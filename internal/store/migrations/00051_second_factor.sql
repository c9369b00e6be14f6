-- +goose Up
-- A user's second factor: the secret of codes that change with time, sealed. It counts once it was confirmed. No code of
-- a step up to last_step is taken again; failures counts wrong codes in a row.
CREATE TABLE second_factors (
    user_id       bigint NOT NULL CONSTRAINT second_factors_pkey PRIMARY KEY CONSTRAINT second_factors_user_fkey REFERENCES users (id) ON DELETE CASCADE,
    sealed        bytea NOT NULL,
    created       timestamptz NOT NULL,
    confirmed     timestamptz,
    last_step     bigint NOT NULL DEFAULT 0,
    failures      integer NOT NULL DEFAULT 0,
    blocked_until timestamptz
);

-- What serves in place of a code, each once.
CREATE TABLE recovery_codes (
    user_id bigint NOT NULL CONSTRAINT recovery_codes_factor_fkey REFERENCES second_factors (user_id) ON DELETE CASCADE,
    hash    bytea NOT NULL,
    CONSTRAINT recovery_codes_pkey PRIMARY KEY (user_id, hash)
);

-- Log-ins whose password was right, and which wait for a code.
CREATE TABLE login_steps (
    hash      bytea NOT NULL CONSTRAINT login_steps_pkey PRIMARY KEY,
    user_id   bigint NOT NULL CONSTRAINT login_steps_user_fkey REFERENCES users (id) ON DELETE CASCADE,
    client_id text NOT NULL,
    expiry    timestamptz NOT NULL
);
CREATE INDEX login_steps_user ON login_steps (user_id);

-- +goose Down
DROP TABLE login_steps, recovery_codes, second_factors;
