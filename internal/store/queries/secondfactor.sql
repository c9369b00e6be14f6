-- name: FactorStart :execrows
INSERT INTO second_factors (user_id, sealed, created) VALUES (@user_id, @sealed, @created)
ON CONFLICT (user_id) DO UPDATE SET sealed = excluded.sealed, created = excluded.created, last_step = 0, failures = 0, blocked_until = NULL
WHERE second_factors.confirmed IS NULL;

-- name: FactorLock :one
SELECT sealed, created, confirmed, last_step, failures, blocked_until FROM second_factors WHERE user_id = @user_id FOR UPDATE;

-- name: FactorConfirmed :one
SELECT EXISTS (SELECT 1 FROM second_factors WHERE user_id = @user_id AND confirmed IS NOT NULL);

-- name: FactorConfirm :execrows
UPDATE second_factors SET confirmed = @now::timestamptz, last_step = @last_step, failures = 0, blocked_until = NULL WHERE user_id = @user_id AND confirmed IS NULL;

-- name: FactorUsed :execrows
UPDATE second_factors SET last_step = greatest(last_step, @last_step), failures = 0, blocked_until = NULL WHERE user_id = @user_id;

-- name: FactorFailed :exec
UPDATE second_factors SET failures = @failures, blocked_until = @blocked_until WHERE user_id = @user_id;

-- name: FactorDelete :execrows
DELETE FROM second_factors WHERE user_id = @user_id;

-- name: RecoveryCodesClear :exec
DELETE FROM recovery_codes WHERE user_id = @user_id;

-- name: RecoveryCodesAdd :exec
INSERT INTO recovery_codes (user_id, hash) SELECT @user_id::bigint, unnest(@hashes::bytea[]);

-- name: RecoveryCodeUse :execrows
DELETE FROM recovery_codes WHERE user_id = @user_id AND hash = @hash;

-- name: LoginStepAdd :exec
INSERT INTO login_steps (hash, user_id, client_id, expiry) VALUES (@hash, @user_id, @client_id, @expiry);

-- name: LoginStepGet :one
SELECT u.id, u.account_id, u.username, u.email, u.restricted, u.add_databases, u.created
FROM login_steps l JOIN users u ON u.id = l.user_id WHERE l.hash = @hash AND l.client_id = @client_id AND l.expiry > @now::timestamptz;

-- name: LoginStepUse :execrows
DELETE FROM login_steps WHERE hash = @hash;

-- name: LoginStepsPurge :exec
DELETE FROM login_steps WHERE expiry < @now::timestamptz;

-- name: FactorsAfter :many
SELECT user_id AS owner, sealed FROM second_factors WHERE user_id > @owner::bigint ORDER BY user_id LIMIT @most::int;

-- name: FactorReseal :execrows
UPDATE second_factors SET sealed = @fresh WHERE user_id = @owner AND sealed = @old;
