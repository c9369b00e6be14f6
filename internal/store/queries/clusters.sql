-- name: ClusterID :one
SELECT nextval(pg_get_serial_sequence('clusters', 'id'))::bigint;

-- name: PortLock :exec
SELECT pg_advisory_xact_lock(@class::int, 0);

-- name: PortFree :one
SELECT p::int FROM generate_series(@first::int, @last::int) p
WHERE NOT EXISTS (SELECT 1 FROM clusters c WHERE c.port = p OR c.pool_port = p) ORDER BY p LIMIT 1;

-- name: ClusterCreate :exec
INSERT INTO clusters (id, account_id, label, engine, series, region, type, size, encrypted, ssl_connection, allow_list,
                      replication_type, commit_type, updates, status, port, created, updated, fork_source, fork_time, fork_asked,
                      engine_config, auto_suspend, protected, platform, autoscale, autoscale_percent, autoscale_max, allow_list_notes) OVERRIDING SYSTEM VALUE
VALUES (@id, @account_id, @label, @engine, @series, @region, @type, @size, @encrypted, @ssl_connection, @allow_list,
        @replication_type, @commit_type, @updates, 'provisioning', @port, @created, @created,
        sqlc.narg('fork_source'), sqlc.narg('fork_time'), sqlc.narg('fork_asked'), @engine_config, @auto_suspend, @protected, @platform, @autoscale, @autoscale_percent, @autoscale_max, @allow_list_notes);

-- name: ClusterUpdate :execrows
UPDATE clusters SET label = @label, series = @series, type = @type, allow_list = @allow_list, allow_list_notes = @allow_list_notes, updates = @updates, status = @status,
                    size = @size, replication_type = @replication_type, commit_type = @commit_type,
                    engine_config = @engine_config, auto_suspend = @auto_suspend, protected = @protected,
                    autoscale = @autoscale, autoscale_percent = @autoscale_percent, autoscale_max = @autoscale_max, pools = @pools, updated = @updated, generation = generation + 1
WHERE id = @id AND generation = @generation AND deleted IS NULL;

-- name: ClusterTransition :execrows
UPDATE clusters SET status = @to_status, updated = @updated, generation = generation + 1
WHERE id = @id AND status = @from_status AND deleted IS NULL;

-- name: ClusterObserved :exec
UPDATE clusters SET host_primary = @host_primary, host_secondary = @host_secondary, members = @members,
                    installation = @installation, server_version = @server_version, used_bytes = @used_bytes, read_only = @read_only
WHERE id = @id AND (host_primary, host_secondary, members, installation, server_version, read_only)
      IS DISTINCT FROM (@host_primary, @host_secondary, @members::jsonb, @installation, @server_version, @read_only)
   OR id = @id AND used_bytes IS DISTINCT FROM @used_bytes;

-- name: ClusterPoolPort :exec
UPDATE clusters SET pool_port = @port::int WHERE id = @id AND pool_port IS NULL;

-- name: ClusterForked :exec
UPDATE clusters SET fork_time = @moment::timestamptz, generation = generation + 1 WHERE id = @id AND fork_source IS NOT NULL;

-- name: ClusterFailovers :execrows
UPDATE clusters SET failovers = @seen::int WHERE id = @id AND failovers = @known::int AND deleted IS NULL;

-- name: ClusterGrew :execrows
UPDATE clusters SET autoscale_from = type, autoscale_at = @at::timestamptz
WHERE id = @id AND autoscale AND (autoscale_from <> type OR autoscale_at IS NULL OR autoscale_at < @before::timestamptz) AND deleted IS NULL;

-- name: ClusterSleeping :execrows
UPDATE clusters SET sleeping_since = sqlc.narg('since')::timestamptz
WHERE id = @id AND sleeping_since IS DISTINCT FROM sqlc.narg('since')::timestamptz AND deleted IS NULL;

-- name: ClusterMarkDeleted :execrows
UPDATE clusters SET deleted = @deleted::timestamptz, generation = generation + 1
WHERE id = @id AND generation = @generation AND deleted IS NULL;

-- name: ClusterRemove :exec
DELETE FROM clusters WHERE id = @id AND deleted IS NOT NULL;

-- name: SecretGet :one
SELECT sealed FROM cluster_secrets WHERE cluster_id = @cluster_id AND name = @name;

-- name: SecretSave :exec
INSERT INTO cluster_secrets (cluster_id, name, sealed) VALUES (@cluster_id, @name, @sealed)
ON CONFLICT (cluster_id, name) DO UPDATE SET sealed = excluded.sealed;

-- name: SecretsCreate :exec
INSERT INTO cluster_secrets (cluster_id, name, sealed)
SELECT @cluster_id::bigint, unnest(@names::text[]), unnest(@sealed::bytea[]);

-- name: ClusterUndelete :execrows
UPDATE clusters SET deleted = NULL, status = 'failed', updated = @now::timestamptz, metered = @now::timestamptz, generation = generation + 1
WHERE clusters.id = @id AND clusters.deleted IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM operations o WHERE o.cluster_id = clusters.id AND o.finished IS NULL);

-- name: PortIsFree :one
SELECT NOT EXISTS (SELECT 1 FROM clusters WHERE port = @port OR pool_port = @port);

-- name: SecretsOf :many
SELECT name, sealed FROM cluster_secrets WHERE cluster_id = @cluster_id ORDER BY name;

-- name: ClusterFinalUntil :exec
UPDATE clusters SET final_until = @until::timestamptz, generation = generation + 1 WHERE id = @id AND deleted IS NOT NULL;
