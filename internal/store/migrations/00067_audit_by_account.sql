-- +goose Up
-- An account's users read its lines of the audit trail, newest first.
CREATE INDEX audit_account ON audit (account_id, id);

-- +goose Down
DROP INDEX audit_account;
