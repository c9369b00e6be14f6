-- +goose Up
-- What clients keep of a user: grants of things that there are none of here, and
-- preferences of a user interface, which nobody but the client reads. These are
-- json, not jsonb: they are given back as they came.
CREATE TABLE user_settings (
    user_id     bigint CONSTRAINT user_settings_pkey PRIMARY KEY CONSTRAINT user_settings_user_fkey REFERENCES users (id) ON DELETE CASCADE,
    globals     jsonb NOT NULL DEFAULT '{}',
    preferences json NOT NULL DEFAULT '{}'
);

-- Log-ins are those lines of the audit trail that name a user who answered the
-- page of an application.
CREATE INDEX audit_logins ON audit (account_id, id) WHERE action = 'POST /oauth/authorize' AND user_id <> 0;

-- +goose Down
DROP INDEX audit_logins;
DROP TABLE user_settings;
