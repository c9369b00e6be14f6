-- name: TokenCreate :one
INSERT INTO tokens (user_id, label, prefix, hash, scopes, created, expiry)
VALUES (@user_id, @label, @prefix, @hash, @scopes, @created, @expiry)
RETURNING id;

-- name: TokenCount :one
SELECT count(*) FROM tokens WHERE user_id = @user_id AND authorization_id IS NULL;

-- name: TokenPrincipal :one
SELECT t.id AS token_id, t.scopes, t.expiry,
       u.id AS user_id, u.account_id, u.username, u.email, u.restricted, u.add_databases, u.created,
       coalesce(a.client_id, '')::text AS client_id, o.status AS account_status
FROM tokens t JOIN users u ON u.id = t.user_id JOIN accounts o ON o.id = u.account_id LEFT JOIN authorizations a ON a.id = t.authorization_id
WHERE t.hash = @hash AND (t.expiry IS NULL OR t.expiry > @now::timestamptz);

-- name: TokenGet :one
SELECT id, user_id, label, prefix, scopes, created, expiry FROM tokens
WHERE user_id = @user_id AND id = @id AND authorization_id IS NULL AND (expiry IS NULL OR expiry > @now::timestamptz);

-- name: TokenRelabel :execrows
UPDATE tokens SET label = @label WHERE user_id = @user_id AND id = @id AND authorization_id IS NULL;

-- name: TokenDelete :execrows
DELETE FROM tokens WHERE user_id = @user_id AND id = @id AND authorization_id IS NULL;
