-- name: OperationCreate :one
INSERT INTO operations (account_id, cluster_id, entity_type, entity_id, entity_key, owner_id, label, engine, action, status, username, params, percent, message, created, started, finished, wake_at)
VALUES (@account_id, @cluster_id, @entity_type, @entity_id, @entity_key, @owner_id, @label, @engine, @action, @status, @username, @params, @percent, @message, @created, @started, @finished, @wake_at)
RETURNING id;

-- An operation that has a companion carries it along. Nobody is woken for that one.
-- name: OperationStart :execrows
UPDATE operations o SET status = 'started', started = coalesce(o.started, @now::timestamptz), attempt = o.attempt + 1,
                        wake_at = CASE WHEN o.id = @id THEN @wake_at::timestamptz END
WHERE o.id IN (@id, (SELECT (l.params->>'companion')::bigint FROM operations l WHERE l.id = @id)) AND o.finished IS NULL;

-- name: OperationProgress :exec
UPDATE operations o SET percent = greatest(o.percent, @percent), message = @message,
                        wake_at = CASE WHEN o.id = @id THEN @wake_at::timestamptz END
WHERE o.id IN (@id, (SELECT (l.params->>'companion')::bigint FROM operations l WHERE l.id = @id)) AND o.finished IS NULL;

-- name: OperationFinish :execrows
UPDATE operations o SET status = @status, percent = 100, message = @message, finished = @now::timestamptz,
                        started = coalesce(o.started, @now::timestamptz), wake_at = NULL
WHERE o.id IN (@id, (SELECT (l.params->>'companion')::bigint FROM operations l WHERE l.id = @id)) AND o.finished IS NULL;

-- name: OperationsFinishOthers :exec
UPDATE operations SET status = 'failed', percent = 100, message = @message, finished = @now::timestamptz, wake_at = NULL
WHERE cluster_id = @cluster_id AND id <> @id AND finished IS NULL;

-- name: OperationsWake :many
UPDATE operations SET wake_at = @next::timestamptz
WHERE id IN (SELECT o.id FROM operations o WHERE o.finished IS NULL AND o.wake_at <= @now::timestamptz ORDER BY o.id LIMIT @most FOR UPDATE SKIP LOCKED)
RETURNING id;

-- name: OperationsWakeAll :exec
UPDATE operations SET wake_at = @now::timestamptz WHERE finished IS NULL AND wake_at IS NOT NULL;

-- name: OperationSeen :exec
UPDATE operations o SET seen = true
WHERE o.account_id = @account_id AND o.id <= @id AND NOT o.seen
  AND (@user_id::bigint = 0 OR o.owner_id = @user_id OR EXISTS (SELECT 1 FROM grants g WHERE g.cluster_id = o.cluster_id AND g.user_id = @user_id));

-- name: OperationRead :execrows
UPDATE operations o SET read = true
WHERE o.account_id = @account_id AND o.id = @id
  AND (@user_id::bigint = 0 OR o.owner_id = @user_id OR EXISTS (SELECT 1 FROM grants g WHERE g.cluster_id = o.cluster_id AND g.user_id = @user_id));

-- name: OperationParams :exec
UPDATE operations SET params = @params WHERE id = @id AND finished IS NULL;
