-- +goose Up
-- From where an application was allowed: the browser by its usual name, and the address.
ALTER TABLE authorizations ADD COLUMN browser text NOT NULL DEFAULT '', ADD COLUMN address text NOT NULL DEFAULT '';
-- What of a user's applications a session of the console is: they end together. Older sessions have none.
ALTER TABLE console_sessions ADD COLUMN authorization_id bigint CONSTRAINT console_sessions_authorization_fkey REFERENCES authorizations (id) ON DELETE CASCADE;
CREATE INDEX console_sessions_authorization ON console_sessions (authorization_id);

-- +goose Down
ALTER TABLE console_sessions DROP COLUMN authorization_id;
ALTER TABLE authorizations DROP COLUMN browser, DROP COLUMN address;
