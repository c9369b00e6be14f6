-- name: AuditAdd :exec
INSERT INTO audit (at, account_id, user_id, username, token_id, client_id, address, action, path, status, request_id)
SELECT unnest(@at::timestamptz[]), unnest(@account_id::bigint[]), unnest(@user_id::bigint[]), unnest(@username::text[]), unnest(@token_id::bigint[]),
       unnest(@client_id::text[]), unnest(@address::text[]), unnest(@action::text[]), unnest(@path::text[]), unnest(@status::integer[]), unnest(@request_id::text[]);

-- name: AuditList :many
SELECT id, at, account_id, user_id, username, token_id, client_id, address, action, path, status, request_id FROM audit
WHERE id > @after AND at >= @since AND (@username::text = '' OR username = @username) ORDER BY id LIMIT @most;

-- name: AuditExpire :one
SELECT audit_expire(@before::timestamptz)::bigint AS gone;
