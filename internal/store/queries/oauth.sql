-- name: PasswordSet :exec
INSERT INTO passwords (user_id, hash, changed) VALUES (@user_id, @hash, @changed)
ON CONFLICT ON CONSTRAINT passwords_pkey DO UPDATE SET hash = excluded.hash, changed = excluded.changed;

-- name: PasswordGet :one
SELECT hash FROM passwords WHERE user_id = @user_id;

-- name: ClientCreate :exec
INSERT INTO oauth_clients (id, account_id, user_id, label, redirect_uri, public, secret_hash, own_scopes, own_expiry, created)
VALUES (@id, @account_id, @user_id, @label, @redirect_uri, @public, @secret_hash, @own_scopes, @own_expiry, @created);

-- name: ClientGet :one
SELECT id, account_id, user_id, label, redirect_uri, public, secret_hash, own_scopes, own_expiry, created
FROM oauth_clients WHERE account_id = @account_id::bigint AND id = @id AND (@user_id::bigint = 0 OR user_id = @user_id::bigint);

-- name: ClientAnywhere :one
SELECT c.id, c.account_id, c.user_id, c.label, c.redirect_uri, c.public, c.secret_hash, c.own_scopes, c.own_expiry, c.created
FROM oauth_clients c LEFT JOIN accounts a ON a.id = c.account_id WHERE c.id = @id AND (c.account_id IS NULL OR a.status = 'active');

-- name: ClientUpdate :execrows
UPDATE oauth_clients SET label = @label, redirect_uri = @redirect_uri WHERE id = @id;

-- name: ClientSetSecret :execrows
UPDATE oauth_clients SET secret_hash = @secret_hash WHERE id = @id;

-- name: ClientDelete :execrows
DELETE FROM oauth_clients WHERE id = @id;

-- name: AuthorizationCreate :exec
INSERT INTO authorizations (request, client_id, user_id, scopes, browser, address, created)
VALUES (@request, @client_id, @user_id, @scopes, @browser, @address, @created);

-- name: AuthorizationDelete :execrows
DELETE FROM authorizations WHERE request = @request;

-- name: AppDelete :execrows
DELETE FROM authorizations WHERE user_id = @user_id AND id = @id;

-- name: CodeCreate :execrows
INSERT INTO authorization_codes (hash, authorization_id, redirect_uri, expiry)
SELECT @hash::bytea, a.id, @redirect_uri::text, @expiry::timestamptz FROM authorizations a WHERE a.request = @request;

-- name: CodeSetChallenge :execrows
UPDATE authorization_codes SET challenge = @challenge WHERE hash = @hash;

-- name: CodeGet :one
SELECT a.request, a.client_id, a.user_id, a.scopes, a.created, o.redirect_uri, o.challenge, o.used
FROM authorization_codes o JOIN authorizations a ON a.id = o.authorization_id
WHERE o.hash = @hash AND o.expiry > @now::timestamptz FOR UPDATE OF o;

-- name: CodeUse :execrows
UPDATE authorization_codes SET used = true WHERE hash = @hash;

-- name: RefreshTokenCreate :execrows
INSERT INTO refresh_tokens (hash, authorization_id, expiry)
SELECT @hash::bytea, a.id, @expiry::timestamptz FROM authorizations a WHERE a.request = @request;

-- name: RefreshTokenGet :one
SELECT a.request, a.client_id, a.user_id, a.scopes, a.created, r.used
FROM refresh_tokens r JOIN authorizations a ON a.id = r.authorization_id
WHERE r.hash = @hash AND r.expiry > @now::timestamptz FOR UPDATE OF r;

-- name: RefreshTokenUse :execrows
UPDATE refresh_tokens SET used = true WHERE hash = @hash;

-- name: AccessTokenCreate :execrows
INSERT INTO tokens (user_id, label, prefix, hash, scopes, created, expiry, authorization_id)
SELECT a.user_id, c.label, '', @hash::bytea, @scopes::text, @created::timestamptz, @expiry::timestamptz, a.id
FROM authorizations a JOIN oauth_clients c ON c.id = a.client_id WHERE a.request = @request;

-- name: AccessTokenGet :one
SELECT a.request, a.client_id, a.user_id, t.scopes, a.created
FROM tokens t JOIN authorizations a ON a.id = t.authorization_id
WHERE t.hash = @hash AND t.expiry > @now::timestamptz;

-- name: AccessTokensDelete :exec
DELETE FROM tokens t USING authorizations a WHERE t.authorization_id = a.id AND a.request = @request;

-- name: TokenIntrospect :one
SELECT t.id, t.scopes, t.created, t.expiry, u.id AS user_id, u.username, coalesce(a.client_id, '')::text AS client_id
FROM tokens t JOIN users u ON u.id = t.user_id LEFT JOIN authorizations a ON a.id = t.authorization_id
WHERE t.hash = @hash AND u.account_id = @account_id AND (t.expiry IS NULL OR t.expiry > @now::timestamptz);

-- name: RefreshTokenIntrospect :one
SELECT a.scopes, a.created, r.expiry, u.id AS user_id, u.username, a.client_id
FROM refresh_tokens r JOIN authorizations a ON a.id = r.authorization_id JOIN users u ON u.id = a.user_id
WHERE r.hash = @hash AND u.account_id = @account_id AND NOT r.used AND r.expiry > @now::timestamptz;

-- name: CodesPurge :exec
DELETE FROM authorization_codes WHERE expiry < @before;

-- name: RefreshTokensPurge :exec
DELETE FROM refresh_tokens WHERE expiry < @before;

-- name: AccessTokensPurge :exec
DELETE FROM tokens WHERE authorization_id IS NOT NULL AND expiry < @before;

-- name: AuthorizationsPurge :exec
DELETE FROM authorizations a WHERE a.created < @before
  AND NOT EXISTS (SELECT 1 FROM authorization_codes o WHERE o.authorization_id = a.id)
  AND NOT EXISTS (SELECT 1 FROM refresh_tokens r WHERE r.authorization_id = a.id)
  AND NOT EXISTS (SELECT 1 FROM tokens t WHERE t.authorization_id = a.id);
