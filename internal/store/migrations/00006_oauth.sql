-- +goose Up
-- Users that log in to give an application access. Of a password only its
-- argon2id hash is kept.
CREATE TABLE passwords (
    user_id bigint NOT NULL CONSTRAINT passwords_pkey PRIMARY KEY CONSTRAINT passwords_user_fkey REFERENCES users (id) ON DELETE CASCADE,
    hash    text NOT NULL,
    changed timestamptz NOT NULL
);

-- Applications. user_id is who registered one: whom its client credentials stand
-- for, within own_scopes and until own_expiry, those of the token it was
-- registered with.
CREATE TABLE oauth_clients (
    id           text NOT NULL CONSTRAINT oauth_clients_pkey PRIMARY KEY,
    account_id   bigint NOT NULL CONSTRAINT oauth_clients_account_fkey REFERENCES accounts (id),
    user_id      bigint NOT NULL CONSTRAINT oauth_clients_user_fkey REFERENCES users (id) ON DELETE CASCADE,
    label        text NOT NULL,
    redirect_uri text NOT NULL,
    public       boolean NOT NULL,
    secret_hash  bytea NOT NULL,
    own_scopes   text NOT NULL,
    own_expiry   timestamptz,
    created      timestamptz NOT NULL
);
CREATE INDEX oauth_clients_account ON oauth_clients (account_id);
CREATE INDEX oauth_clients_user ON oauth_clients (user_id);

-- What a user allowed an application. Its codes, refresh and access tokens are
-- one family and go together.
CREATE TABLE authorizations (
    id        bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT authorizations_pkey PRIMARY KEY,
    request   text NOT NULL CONSTRAINT authorizations_request_unique UNIQUE,
    client_id text NOT NULL CONSTRAINT authorizations_client_fkey REFERENCES oauth_clients (id) ON DELETE CASCADE,
    user_id   bigint NOT NULL CONSTRAINT authorizations_user_fkey REFERENCES users (id) ON DELETE CASCADE,
    scopes    text NOT NULL,
    created   timestamptz NOT NULL
);
CREATE INDEX authorizations_client ON authorizations (client_id);
CREATE INDEX authorizations_user ON authorizations (user_id);

CREATE TABLE authorization_codes (
    hash             bytea NOT NULL CONSTRAINT authorization_codes_pkey PRIMARY KEY,
    authorization_id bigint NOT NULL CONSTRAINT authorization_codes_authorization_fkey REFERENCES authorizations (id) ON DELETE CASCADE,
    redirect_uri     text NOT NULL,
    challenge        text NOT NULL DEFAULT '',
    expiry           timestamptz NOT NULL,
    used             boolean NOT NULL DEFAULT false
);
CREATE INDEX authorization_codes_authorization ON authorization_codes (authorization_id);
CREATE INDEX authorization_codes_expiry ON authorization_codes (expiry);

CREATE TABLE refresh_tokens (
    hash             bytea NOT NULL CONSTRAINT refresh_tokens_pkey PRIMARY KEY,
    authorization_id bigint NOT NULL CONSTRAINT refresh_tokens_authorization_fkey REFERENCES authorizations (id) ON DELETE CASCADE,
    expiry           timestamptz NOT NULL,
    used             boolean NOT NULL DEFAULT false
);
CREATE INDEX refresh_tokens_authorization ON refresh_tokens (authorization_id);
CREATE INDEX refresh_tokens_expiry ON refresh_tokens (expiry);

-- Access tokens come in by the same door as personal ones, so they are tokens:
-- those with an authorization.
ALTER TABLE tokens ADD COLUMN authorization_id bigint CONSTRAINT tokens_authorization_fkey REFERENCES authorizations (id) ON DELETE CASCADE;
CREATE INDEX tokens_authorization ON tokens (authorization_id) WHERE authorization_id IS NOT NULL;

-- What servers that share the store have let through in each minute. Losing it
-- in a crash costs a minute's count, so it is spared the write-ahead log.
CREATE UNLOGGED TABLE rate_counts (
    key    text NOT NULL,
    minute timestamptz NOT NULL,
    taken  integer NOT NULL,
    CONSTRAINT rate_counts_pkey PRIMARY KEY (key, minute)
);
CREATE INDEX rate_counts_minute ON rate_counts (minute);

-- Who did what, from where, with which token, when, and how it ended. The users
-- and tokens may be gone, so no foreign keys.
CREATE TABLE audit (
    id         bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT audit_pkey PRIMARY KEY,
    at         timestamptz NOT NULL,
    account_id bigint NOT NULL,
    user_id    bigint NOT NULL,
    username   text NOT NULL,
    token_id   bigint NOT NULL,
    client_id  text NOT NULL,
    address    text NOT NULL,
    action     text NOT NULL,
    path       text NOT NULL,
    status     integer NOT NULL,
    request_id text NOT NULL
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_username ON audit (username, id);

-- Rows are added and never changed. Only audit_expire removes any, and only what
-- is older than 30 days, whoever sets what.
-- +goose StatementBegin
CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('steward.audit_expire', true) = 'on' AND OLD.at < now() - interval '30 days' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit trail is append-only' USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'audit_append_only';
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_rows_stay BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_stays BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse();

-- +goose StatementBegin
CREATE FUNCTION audit_expire(before timestamptz) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE gone bigint;
BEGIN
    PERFORM set_config('steward.audit_expire', 'on', true);
    DELETE FROM audit WHERE at < least(before, now() - interval '30 days');
    GET DIAGNOSTICS gone = ROW_COUNT;
    PERFORM set_config('steward.audit_expire', 'off', true);
    RETURN gone;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP TABLE audit;
DROP FUNCTION audit_expire, audit_refuse;
DROP TABLE rate_counts;
DELETE FROM tokens WHERE authorization_id IS NOT NULL;
ALTER TABLE tokens DROP COLUMN authorization_id;
DROP TABLE refresh_tokens, authorization_codes, authorizations, oauth_clients, passwords;
