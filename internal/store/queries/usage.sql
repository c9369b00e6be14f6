-- name: UsageCount :exec
WITH due AS (
    SELECT id, account_id, label, engine || '/' || series AS engine, type, size, status, coalesce(used_bytes, 0) AS used_bytes,
           coalesce(metered, created) AS since,
           (SELECT coalesce(sum(b.stored_bytes), 0)::bigint FROM backups b WHERE b.cluster_id = clusters.id AND b.state = 'complete') AS backup_bytes
    FROM clusters
    WHERE deleted IS NULL AND coalesce(metered, created) < @until::timestamptz AND (@id::bigint = 0 OR id = @id)
    FOR UPDATE SKIP LOCKED
), counted AS (
    UPDATE clusters SET metered = @until::timestamptz FROM due WHERE clusters.id = due.id
), days AS (
    SELECT due.*, day::date AS day,
           extract(epoch FROM least(@until::timestamptz, timezone('UTC', day + '1 day'::interval)) - greatest(since, timezone('UTC', day)))::double precision AS seconds
    FROM due, generate_series(date_trunc('day', timezone('UTC', since)), timezone('UTC', @until::timestamptz), '1 day'::interval) day
)
INSERT INTO usage (cluster_id, day, type, size, account_id, label, engine, running, suspended, used_bytes, backup_bytes)
SELECT id, day, type, size, account_id, label, engine,
       CASE WHEN status = 'suspended' THEN 0 ELSE seconds END, CASE WHEN status = 'suspended' THEN seconds ELSE 0 END, used_bytes, backup_bytes
FROM days WHERE seconds > 0
ON CONFLICT (cluster_id, day, type, size) DO UPDATE SET
    label = excluded.label, engine = excluded.engine, running = usage.running + excluded.running, suspended = usage.suspended + excluded.suspended,
    used_bytes = greatest(usage.used_bytes, excluded.used_bytes), backup_bytes = greatest(usage.backup_bytes, excluded.backup_bytes);

-- name: UsageExpire :exec
DELETE FROM usage WHERE day < timezone('UTC', @before::timestamptz)::date;
