-- name: OperatorAdd :execrows
INSERT INTO operators (user_id, created) VALUES (@user_id, @created) ON CONFLICT DO NOTHING;

-- name: OperatorRemove :execrows
DELETE FROM operators WHERE user_id = @user_id;

-- name: OperatorIs :one
SELECT EXISTS (SELECT FROM operators o JOIN users u ON u.id = o.user_id WHERE o.user_id = @user_id AND NOT u.restricted);

-- name: OperatorAll :many
SELECT u.id, u.account_id, u.username, u.email, u.restricted, u.add_databases, u.created, a.name AS account
FROM operators o JOIN users u ON u.id = o.user_id JOIN accounts a ON a.id = u.account_id ORDER BY a.name, u.username;

-- name: RegionDatabases :many
SELECT region, type, size, count(*) AS databases FROM clusters WHERE deleted IS NULL GROUP BY region, type, size ORDER BY region, type, size;
