-- name: AccountEnsure :one
INSERT INTO accounts (name, created) VALUES (@name, @created)
ON CONFLICT ON CONSTRAINT accounts_name_unique DO UPDATE SET name = excluded.name
RETURNING id;

-- name: UserCreate :one
INSERT INTO users (account_id, username, email, restricted, add_databases, created)
VALUES (@account_id, @username, @email, @restricted, @add_databases, @created)
RETURNING id, account_id, username, email, restricted, add_databases, created;

-- name: UserByName :one
SELECT id, account_id, username, email, restricted, add_databases, created
FROM users WHERE account_id = @account_id AND username = @username;

-- name: UserAnywhere :many
SELECT id, account_id, username, email, restricted, add_databases, created
FROM users WHERE username = @username LIMIT 2;

-- name: UserLock :many
SELECT id, account_id, username, email, restricted, add_databases, created
FROM users WHERE account_id = @account_id ORDER BY id FOR UPDATE;

-- name: UserUpdate :exec
UPDATE users SET username = @username, email = @email, restricted = @restricted, add_databases = @add_databases
WHERE account_id = @account_id AND id = @id;

-- name: UserDelete :execrows
DELETE FROM users WHERE account_id = @account_id AND id = @id;

-- name: UserGrants :many
SELECT c.id AS cluster_id, c.label, coalesce(g.permission, '')::text AS permission
FROM clusters c LEFT JOIN grants g ON g.cluster_id = c.id AND g.user_id = @user_id
WHERE c.account_id = @account_id AND c.deleted IS NULL ORDER BY c.id;

-- name: GrantSet :execrows
INSERT INTO grants (user_id, cluster_id, permission)
SELECT @user_id::bigint, c.id, @permission::text FROM clusters c
WHERE c.id = @cluster_id::bigint AND c.account_id = @account_id::bigint AND c.deleted IS NULL
ON CONFLICT (user_id, cluster_id) DO UPDATE SET permission = excluded.permission;

-- name: GrantRemove :exec
DELETE FROM grants WHERE user_id = @user_id AND cluster_id = @cluster_id;

-- name: GrantOf :one
SELECT permission FROM grants WHERE user_id = @user_id AND cluster_id = @cluster_id;

-- name: AccountName :one
SELECT name FROM accounts WHERE id = @id;

-- name: ClusterUsers :many
SELECT u.id, u.account_id, u.username, u.email, u.restricted, u.add_databases, u.created, g.permission
FROM grants g JOIN users u ON u.id = g.user_id WHERE g.cluster_id = @cluster_id ORDER BY u.username;

-- name: AccountNamed :one
SELECT id FROM accounts WHERE name = @name;
