-- name: SSHKeyCreate :exec
INSERT INTO account_keys (account_id, name, sealed, public, created)
VALUES (@account_id, 'ssh', @sealed, @public, @created)
ON CONFLICT (account_id, name) DO NOTHING;

-- name: SSHKeyGet :one
SELECT public, sealed FROM account_keys WHERE account_id = @account_id AND name = 'ssh';
