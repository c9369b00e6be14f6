-- name: AccountKeyCreate :exec
INSERT INTO account_keys (account_id, name, sealed, created)
VALUES (@account_id, 'data', @sealed, @created)
ON CONFLICT (account_id, name) DO NOTHING;

-- name: AccountKeyGet :one
SELECT sealed FROM account_keys WHERE account_id = @account_id AND name = 'data';

-- name: CredentialID :one
SELECT nextval(pg_get_serial_sequence('credentials', 'id'))::bigint;

-- name: CredentialCreate :exec
INSERT INTO credentials (id, account_id, label, sealed_username, sealed_password, created, updated) OVERRIDING SYSTEM VALUE
VALUES (@id, @account_id, @label, @sealed_username, @sealed_password, @created, @created);

-- name: CredentialLabelIs :one
SELECT EXISTS (SELECT 1 FROM credentials WHERE account_id = @account_id AND label = @label AND id <> @other);

-- name: CredentialRelabel :execrows
UPDATE credentials SET label = @label, updated = @updated WHERE account_id = @account_id AND id = @id;

-- name: CredentialSetPassword :execrows
UPDATE credentials SET sealed_password = @sealed_password, updated = @updated WHERE account_id = @account_id AND id = @id;

-- name: CredentialSetUsername :execrows
UPDATE credentials SET sealed_username = @sealed_username, updated = @updated WHERE account_id = @account_id AND id = @id;

-- name: CredentialSealed :one
SELECT sealed_username, sealed_password FROM credentials WHERE account_id = @account_id AND id = @id;

-- name: CredentialDecrypted :execrows
UPDATE credentials SET last_decrypted = @at::timestamptz WHERE account_id = @account_id AND id = @id;

-- name: CredentialDelete :execrows
DELETE FROM credentials WHERE account_id = @account_id AND id = @id;

-- name: RevealCreate :exec
INSERT INTO credential_reveals (account_id, credential_id, label, staff, purpose, created)
VALUES (@account_id, @credential_id, @label, @staff, @purpose, @created);

-- name: RevealList :many
SELECT account_id, credential_id, label, staff, purpose, created FROM credential_reveals ORDER BY id;
