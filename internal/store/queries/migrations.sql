-- name: MigrationID :one
SELECT nextval(pg_get_serial_sequence('migrations', 'id'))::bigint;

-- name: MigrationCreate :exec
INSERT INTO migrations (id, account_id, cluster_id, host, port, username, tls, ca, sealed_password, mode, databases, status, created) OVERRIDING SYSTEM VALUE
VALUES (@id, @account_id, @cluster_id, @host, @port, @username, @tls, @ca, @sealed_password, @mode, @databases, 'pending', @created);

-- name: MigrationSealed :one
SELECT sealed_password FROM migrations WHERE id = @id;

-- name: MigrationBegin :execrows
UPDATE migrations SET status = 'running' WHERE id = @id AND status IN ('pending', 'running');

-- name: MigrationProgress :one
UPDATE migrations SET progress = @progress WHERE id = @id RETURNING status;

-- name: MigrationDatabases :execrows
UPDATE migrations SET databases = @databases WHERE id = @id AND finished IS NULL;

-- name: MigrationCancel :execrows
UPDATE migrations SET status = 'canceling' WHERE id = @id AND cluster_id = @cluster_id AND finished IS NULL;

-- name: MigrationFinish :execrows
UPDATE migrations SET status = @status, problem = @problem, progress = @progress, finished = @now::timestamptz, sealed_password = NULL WHERE id = @id AND finished IS NULL;

-- name: MigrationDelete :execrows
DELETE FROM migrations WHERE id = @id AND cluster_id = @cluster_id AND finished IS NOT NULL;

-- name: MigrationCutover :execrows
UPDATE migrations SET cutover = coalesce(cutover, @now::timestamptz) WHERE id = @id AND cluster_id = @cluster_id AND status = 'running' AND mode = 'replicate' AND (cutover IS NOT NULL OR progress->>'phase' = 'following');

-- name: MigrationAsked :one
SELECT status, cutover FROM migrations WHERE id = @id;
