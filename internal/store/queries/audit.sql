-- name: AuditAdd :exec
INSERT INTO audit (at, account_id, user_id, username, token_id, client_id, address, action, path, status, request_id)
SELECT l.at, l.account_id, l.user_id, coalesce(nullif(l.username, ''), u.username, ''), l.token_id, l.client_id, l.address, l.action, l.path, l.status, l.request_id
FROM (SELECT generate_subscripts(@at::timestamptz[], 1) AS n, unnest(@at) AS at, unnest(@account_id::bigint[]) AS account_id, unnest(@user_id::bigint[]) AS user_id,
             unnest(@username::text[]) AS username, unnest(@token_id::bigint[]) AS token_id, unnest(@client_id::text[]) AS client_id, unnest(@address::text[]) AS address,
             unnest(@action::text[]) AS action, unnest(@path::text[]) AS path, unnest(@status::integer[]) AS status, unnest(@request_id::text[]) AS request_id) l
LEFT JOIN users u ON u.id = l.user_id ORDER BY l.n;

-- name: AuditList :many
SELECT id, at, account_id, user_id, username, token_id, client_id, address, action, path, status, request_id FROM audit
WHERE id > @after AND at >= @since AND (@username::text = '' OR username = @username) ORDER BY id LIMIT @most;

-- name: AuditExpire :one
SELECT audit_expire(@before::timestamptz)::bigint AS gone;
