-- name: ConsoleSessionCreate :execrows
INSERT INTO console_sessions (hash, user_id, tokens, authorization_id, created, used, confirmed)
SELECT @hash::bytea, t.user_id, @tokens::bytea, t.authorization_id, @now::timestamptz, @now, @now FROM tokens t WHERE t.id = @token_id;

-- name: ConsoleSessionGet :one
SELECT tokens, version, created, used, confirmed FROM console_sessions
WHERE hash = @hash AND used > @idle::timestamptz AND created > @oldest::timestamptz;

-- name: ConsoleSessionUse :exec
UPDATE console_sessions SET used = @now WHERE hash = @hash;

-- name: ConsoleSessionConfirm :execrows
UPDATE console_sessions SET confirmed = @now WHERE hash = @hash;

-- name: ConsoleSessionClaim :execrows
UPDATE console_sessions SET refreshing = @now
WHERE hash = @hash AND version = @version AND (refreshing IS NULL OR refreshing < @stale::timestamptz);

-- name: ConsoleSessionRelease :exec
UPDATE console_sessions SET refreshing = NULL WHERE hash = @hash AND version = @version;

-- name: ConsoleSessionRenew :execrows
UPDATE console_sessions SET tokens = @tokens, version = version + 1, refreshing = NULL
WHERE hash = @hash AND version = @version;

-- name: ConsoleSessionDelete :exec
DELETE FROM console_sessions WHERE hash = @hash;

-- name: ConsoleAuthorizationsPurge :exec
DELETE FROM authorizations a USING console_sessions s
WHERE s.authorization_id = a.id AND (s.used < @idle::timestamptz OR s.created < @oldest::timestamptz);

-- name: ConsoleSessionsPurge :exec
DELETE FROM console_sessions WHERE used < @idle::timestamptz OR created < @oldest::timestamptz;

-- name: LoginLinkCreate :exec
INSERT INTO login_links (hash, user_id, expiry) VALUES (@hash, @user_id, @expiry);

-- name: LoginLinkUser :one
SELECT u.id, u.account_id, u.username, u.email, u.restricted, u.add_databases, u.created
FROM login_links l JOIN users u ON u.id = l.user_id WHERE l.hash = @hash AND l.expiry > @now::timestamptz;

-- name: LoginLinkUse :execrows
DELETE FROM login_links WHERE hash = @hash AND expiry > @now::timestamptz;

-- name: LoginLinksDelete :exec
DELETE FROM login_links WHERE user_id = @user_id;

-- name: LoginLinksPurge :exec
DELETE FROM login_links WHERE expiry < @now;

-- name: UserAccount :one
SELECT account_id FROM users WHERE id = @id;
