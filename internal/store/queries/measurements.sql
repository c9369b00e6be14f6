-- name: SlicesAdd :exec
INSERT INTO measured_slices (cluster_id, started, node, packed)
SELECT unnest(@clusters::bigint[]), unnest(@starts::timestamptz[]), unnest(@nodes::smallint[]), unnest(@packed::bytea[]);

-- name: SlicesOf :many
SELECT started, node, packed FROM measured_slices
WHERE cluster_id = @cluster_id AND started >= @since::timestamptz AND started < @until::timestamptz ORDER BY started, node;

-- name: SlicesTake :many
DELETE FROM measured_slices WHERE cluster_id = @cluster_id AND started >= @since::timestamptz AND started < @until::timestamptz
RETURNING started, node, packed;

-- name: SlicesHours :many
SELECT DISTINCT cluster_id, date_trunc('hour', started, 'UTC')::timestamptz AS hour FROM measured_slices
WHERE started < @before::timestamptz ORDER BY hour, cluster_id;

-- name: SlicesForget :exec
DELETE FROM measured_slices s WHERE NOT EXISTS (SELECT 1 FROM clusters c WHERE c.id = s.cluster_id);

-- name: FineOf :many
SELECT started, metric, node, packed FROM measured_fine
WHERE cluster_id = @cluster_id AND metric = ANY(@metrics::smallint[]) AND started >= @since::timestamptz AND started < @until::timestamptz;

-- name: FineClusters :many
SELECT DISTINCT cluster_id FROM measured_fine WHERE started >= @since::timestamptz AND started < @until::timestamptz ORDER BY cluster_id;

-- name: FineSave :exec
INSERT INTO measured_fine (cluster_id, started, metric, node, packed)
SELECT @cluster_id::bigint, @started::timestamptz, unnest(@metrics::smallint[]), unnest(@nodes::smallint[]), unnest(@packed::bytea[])
ON CONFLICT (cluster_id, metric, node, started) DO UPDATE SET packed = excluded.packed;

-- name: MediumOf :many
SELECT started, metric, node, packed FROM measured_medium
WHERE cluster_id = @cluster_id AND metric = ANY(@metrics::smallint[]) AND started >= @since::timestamptz AND started < @until::timestamptz;

-- name: MediumClusters :many
SELECT DISTINCT cluster_id FROM measured_medium WHERE started >= @since::timestamptz AND started < @until::timestamptz ORDER BY cluster_id;

-- name: MediumSave :exec
INSERT INTO measured_medium (cluster_id, started, metric, node, packed)
SELECT @cluster_id::bigint, @started::timestamptz, unnest(@metrics::smallint[]), unnest(@nodes::smallint[]), unnest(@packed::bytea[])
ON CONFLICT (cluster_id, metric, node, started) DO UPDATE SET packed = excluded.packed;

-- name: CoarseOf :many
SELECT started, metric, node, packed FROM measured_coarse
WHERE cluster_id = @cluster_id AND metric = ANY(@metrics::smallint[]) AND started >= @since::timestamptz AND started < @until::timestamptz;

-- name: CoarseSave :exec
INSERT INTO measured_coarse (cluster_id, started, metric, node, packed)
SELECT @cluster_id::bigint, @started::timestamptz, unnest(@metrics::smallint[]), unnest(@nodes::smallint[]), unnest(@packed::bytea[])
ON CONFLICT (cluster_id, metric, node, started) DO UPDATE SET packed = excluded.packed;

-- name: CoarseForget :exec
DELETE FROM measured_coarse m WHERE m.started < @before::timestamptz OR NOT EXISTS (SELECT 1 FROM clusters c WHERE c.id = m.cluster_id);

-- name: RollupsOf :many
SELECT started FROM measured_rollups WHERE step = @step::integer ORDER BY started;

-- name: RollupsEnd :many
SELECT step, max(ended)::timestamptz AS ended FROM measured_rollups GROUP BY step;

-- name: RollupsAdd :exec
INSERT INTO measured_rollups (step, started, ended)
SELECT @step::integer, unnest(@starts::timestamptz[]), unnest(@ends::timestamptz[]) ON CONFLICT DO NOTHING;

-- name: RollupsUndo :exec
DELETE FROM measured_rollups WHERE started <= @at::timestamptz AND ended > @at::timestamptz;

-- name: RollupsForget :exec
DELETE FROM measured_rollups WHERE ended < @before::timestamptz;

-- name: MeasurementLock :exec
SELECT pg_advisory_xact_lock(@class::integer, @key::integer);

-- name: MeasuredClusters :many
SELECT id FROM clusters WHERE deleted IS NULL AND status NOT IN ('provisioning', 'suspended') AND sleeping_since IS NULL ORDER BY id;
