-- +goose Up
-- The console is an application that all accounts have: it is of none.
ALTER TABLE oauth_clients ALTER COLUMN account_id DROP NOT NULL, ALTER COLUMN user_id DROP NOT NULL;
INSERT INTO oauth_clients (id, label, redirect_uri, public, secret_hash, own_scopes, created)
VALUES ('636f6e736f6c65000000', 'Console', '', true, '', '*', now());

-- Browsers that are logged in to the console, by the hash of their cookie, which alone
-- opens tokens: the key of secrets has no part in it. version grows with each renewal of the
-- tokens; refreshing is when one server began to renew them.
CREATE TABLE console_sessions (
    hash       bytea NOT NULL CONSTRAINT console_sessions_pkey PRIMARY KEY,
    user_id    bigint NOT NULL CONSTRAINT console_sessions_user_fkey REFERENCES users (id) ON DELETE CASCADE,
    tokens     bytea NOT NULL,
    version    bigint NOT NULL DEFAULT 1,
    refreshing timestamptz,
    created    timestamptz NOT NULL,
    used       timestamptz NOT NULL,
    confirmed  timestamptz NOT NULL
);
CREATE INDEX console_sessions_user ON console_sessions (user_id);
CREATE INDEX console_sessions_used ON console_sessions (used);

-- Links with which users set a password, once.
CREATE TABLE login_links (
    hash    bytea NOT NULL CONSTRAINT login_links_pkey PRIMARY KEY,
    user_id bigint NOT NULL CONSTRAINT login_links_user_fkey REFERENCES users (id) ON DELETE CASCADE,
    expiry  timestamptz NOT NULL
);
CREATE INDEX login_links_user ON login_links (user_id);

-- +goose Down
DROP TABLE console_sessions, login_links;
DELETE FROM oauth_clients WHERE account_id IS NULL;
ALTER TABLE oauth_clients ALTER COLUMN account_id SET NOT NULL, ALTER COLUMN user_id SET NOT NULL;
