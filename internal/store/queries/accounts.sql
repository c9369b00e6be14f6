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

-- name: AccountCreate :one
INSERT INTO accounts (name, email, max_databases, max_nodes, max_memory_gb, max_disk_gb, max_services, created)
VALUES (@name, @email, sqlc.narg('max_databases'), sqlc.narg('max_nodes'), sqlc.narg('max_memory_gb'), sqlc.narg('max_disk_gb'), sqlc.narg('max_services'), @created)
RETURNING *;

-- name: AccountGet :one
SELECT * FROM accounts WHERE id = @id;

-- name: AccountByName :one
SELECT * FROM accounts WHERE name = @name;

-- name: AccountAll :many
SELECT * FROM accounts ORDER BY id;

-- name: AccountHold :one
SELECT * FROM accounts WHERE id = @id FOR NO KEY UPDATE;

-- name: AccountUpdate :execrows
UPDATE accounts SET email = @email, status = @status, max_databases = sqlc.narg('max_databases'), max_nodes = sqlc.narg('max_nodes'),
       max_memory_gb = sqlc.narg('max_memory_gb'), max_disk_gb = sqlc.narg('max_disk_gb'), max_services = sqlc.narg('max_services')
WHERE id = @id;

-- name: AccountDatabases :many
SELECT type, size, count(*) AS databases FROM clusters WHERE account_id = @account_id AND deleted IS NULL GROUP BY type, size;

-- name: AccountCounts :one
SELECT (SELECT count(*) FROM services s WHERE s.account_id = @account_id) AS services,
       (SELECT count(*) FROM users u WHERE u.account_id = @account_id) AS users;

-- name: AccountsToSettle :many
SELECT * FROM accounts a
WHERE a.status <> 'active' OR EXISTS (SELECT 1 FROM clusters c WHERE c.account_id = a.id AND c.rests_with_account AND c.deleted IS NULL)
ORDER BY a.id;

-- name: AccountClusters :many
SELECT id, status, rests_with_account, (deleted IS NOT NULL)::boolean AS deleted FROM clusters WHERE account_id = @account_id ORDER BY id;

-- name: ClusterRestsWithAccount :execrows
UPDATE clusters SET rests_with_account = @rests WHERE id = @id AND deleted IS NULL;

-- name: AccountTouchShards :exec
UPDATE shards SET changed = changed + 1 FROM (
    SELECT h.id FROM shards h WHERE EXISTS (SELECT 1 FROM services s WHERE s.account_id = @account_id AND s.shard = h.id) ORDER BY h.id FOR UPDATE
) AS mine WHERE shards.id = mine.id;

-- name: AccountDeleteNotices :exec
DELETE FROM notices WHERE account_id = @account_id;

-- name: AccountDeleteIssues :exec
DELETE FROM issues WHERE account_id = @account_id;

-- name: AccountDeleteTickets :exec
DELETE FROM tickets WHERE account_id = @account_id;

-- name: AccountDeleteStatusPages :exec
DELETE FROM status_pages WHERE account_id = @account_id;

-- name: AccountDeleteCheckDays :exec
DELETE FROM check_days d USING services s WHERE s.id = d.service_id AND s.account_id = @account_id;

-- name: AccountDeleteServices :exec
DELETE FROM services WHERE account_id = @account_id;

-- name: AccountDeleteCredentials :exec
DELETE FROM credentials WHERE account_id = @account_id;

-- name: AccountDeleteReveals :exec
DELETE FROM credential_reveals WHERE account_id = @account_id;

-- name: AccountDeleteContacts :exec
DELETE FROM contacts WHERE account_id = @account_id;

-- name: AccountDeleteUsage :exec
DELETE FROM usage WHERE account_id = @account_id;

-- name: AccountDeleteKeys :exec
DELETE FROM account_keys WHERE account_id = @account_id;

-- name: AccountDeleteComputes :exec
DELETE FROM computes WHERE account_id = @account_id;

-- name: AccountDeleteUsers :exec
DELETE FROM users WHERE account_id = @account_id;

-- name: AccountDeleteOperations :exec
DELETE FROM operations WHERE account_id = @account_id;

-- name: AccountDelete :execrows
DELETE FROM accounts WHERE id = @id AND status = 'deleting';

-- name: AccountUnsettled :one
SELECT count(*) FROM clusters c JOIN accounts a ON a.id = c.account_id
WHERE a.id = @id AND CASE a.status
    WHEN 'active' THEN c.deleted IS NULL AND (c.rests_with_account OR c.status = 'resuming')
    WHEN 'suspended' THEN c.deleted IS NULL AND c.status NOT IN ('suspended', 'failed')
    ELSE c.deleted IS NULL OR EXISTS (SELECT 1 FROM operations o WHERE o.cluster_id = c.id AND o.finished IS NULL) END;
