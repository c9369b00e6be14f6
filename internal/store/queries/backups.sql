-- name: BackupCreate :one
INSERT INTO backups (account_id, cluster_id, type, label, target, state, created)
VALUES (@account_id, @cluster_id, @type, @label, @target, 'running', @created)
RETURNING id;

-- name: BackupFinish :execrows
UPDATE backups SET state = @state, finished = @now::timestamptz, bytes = @bytes, stored_bytes = @stored_bytes,
                   installation = @installation, problem = @problem, ref = @ref
WHERE id = @id AND state = 'running';

-- name: BackupVerified :execrows
WITH live AS (
    SELECT c.id FROM clusters c JOIN backups b ON b.cluster_id = c.id WHERE b.id = @id AND c.deleted IS NULL FOR SHARE OF c
)
UPDATE backups SET verified = CASE WHEN @problem::text = '' THEN @now::timestamptz END, problem = @problem::text,
                   verify_tries = 0, verify_after = NULL
WHERE backups.id = @id AND state = 'complete' AND cluster_id IN (SELECT live.id FROM live);

-- name: BackupProvenTold :exec
UPDATE operations SET message = @message WHERE cluster_id = @cluster_id::bigint AND action = 'database_backup_create' AND status = 'finished'
  AND (params->>'backup')::bigint = @backup_id::bigint AND message = '';

-- name: BackupUnverified :execrows
UPDATE backups SET verify_tries = verify_tries + 1, verify_after = @after::timestamptz
WHERE id = @id AND state = 'complete';

-- name: BackupMarkDeleting :execrows
UPDATE backups SET state = 'deleting' WHERE id = @id AND state IN ('complete', 'failed');

-- name: BackupForget :exec
DELETE FROM backups WHERE id = @id AND state = 'deleting';

-- name: ClusterLockedOut :exec
UPDATE clusters SET locked_out = @locked_out, generation = generation + 1 WHERE id = @id AND locked_out <> @locked_out;

-- name: ClusterLastAuto :exec
UPDATE clusters SET last_auto = @at::timestamptz WHERE id = @id;

-- name: CredentialsResetSince :one
SELECT EXISTS (SELECT 1 FROM operations WHERE cluster_id = @cluster_id AND action = 'database_credentials_reset' AND created > @since::timestamptz);

-- name: BackupAdopt :exec
INSERT INTO backups (id, account_id, cluster_id, type, label, target, state, created, finished, bytes, stored_bytes, installation) OVERRIDING SYSTEM VALUE
VALUES (@id, @account_id, @cluster_id, @type, @label, 'primary', 'complete', @created, @created, @bytes, @stored_bytes, @installation)
ON CONFLICT (cluster_id, label) WHERE state <> 'deleting' DO NOTHING;

-- name: LastRestore :one
SELECT max(created)::timestamptz FROM operations
WHERE cluster_id = @cluster_id AND created <= @until::timestamptz AND params ->> 'touched' = 'true'
  AND action IN ('database_backup_restore', 'database_backup_restore_undo', 'database_upgrade')
HAVING max(created) IS NOT NULL;

-- name: LastReplacement :one
SELECT action, finished FROM operations
WHERE cluster_id = @cluster_id AND params ->> 'touched' = 'true'
  AND action IN ('database_backup_restore', 'database_backup_restore_undo', 'database_upgrade')
ORDER BY id DESC LIMIT 1;

-- name: BackupInPlace :one
SELECT (CASE action WHEN 'database_backup_restore' THEN params ELSE '{}' END)::jsonb AS params FROM operations
WHERE cluster_id = @cluster_id AND params ->> 'touched' = 'true'
  AND action IN ('database_backup_restore', 'database_backup_restore_undo', 'database_upgrade')
ORDER BY id DESC LIMIT 1;
