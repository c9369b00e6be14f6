-- name: CheckBlocksAdd :exec
INSERT INTO check_blocks (shard, started, ended, packed)
SELECT unnest(@shards::integer[]), unnest(@starts::timestamptz[]), unnest(@ends::timestamptz[]), unnest(@packed::bytea[]);

-- name: CheckBlocksOf :many
SELECT started, packed FROM check_blocks
WHERE shard = @shard AND started >= @since::timestamptz AND started < @until::timestamptz ORDER BY started;

-- name: CheckShardsOf :many
SELECT DISTINCT shard FROM check_blocks WHERE started >= @since::timestamptz AND started < @until::timestamptz ORDER BY shard;

-- name: CheckBlocksTake :many
DELETE FROM check_blocks WHERE shard = @shard AND started >= @since::timestamptz AND started < @until::timestamptz RETURNING started, packed;

-- name: CheckHoursMissing :many
SELECT hour::timestamptz FROM generate_series(@since::timestamptz, @until::timestamptz, interval '1 hour') AS hour
WHERE NOT EXISTS (SELECT 1 FROM check_rollups r WHERE r.hour = hour.hour) ORDER BY hour;

-- name: CheckRollupsEmpty :exec
INSERT INTO check_rollups (hour)
SELECT hour FROM generate_series(@since::timestamptz, @until::timestamptz, interval '1 hour') AS hour
WHERE NOT EXISTS (SELECT 1 FROM check_rollups r WHERE r.hour = hour.hour)
  AND NOT EXISTS (SELECT 1 FROM check_blocks b WHERE b.started < hour.hour + interval '1 hour' AND b.ended >= hour.hour)
ON CONFLICT DO NOTHING;

-- name: CheckRollup :execrows
INSERT INTO check_rollups (hour) VALUES (@hour) ON CONFLICT DO NOTHING;

-- name: CheckRollupsForget :exec
DELETE FROM check_rollups WHERE hour < @before::timestamptz;

-- name: CheckHoursAdd :exec
INSERT INTO check_hours (service_id, hour, checks, failures, total_ms, longest_ms)
SELECT unnest(@services::bigint[]), @hour::timestamptz, unnest(@checks::integer[]), unnest(@failures::integer[]), unnest(@totals::bigint[]),
       unnest(@longests::integer[]);

-- name: CheckHoursSum :one
SELECT coalesce(sum(checks), 0)::bigint AS checks, coalesce(sum(failures), 0)::bigint AS failures,
       coalesce(sum(total_ms), 0)::bigint AS total_ms, coalesce(max(longest_ms), 0)::integer AS longest_ms
FROM check_hours WHERE service_id = @service_id AND hour >= @since::timestamptz;

-- name: CheckRolledUntil :one
SELECT coalesce(max(hour) + interval '1 hour', 'epoch')::timestamptz FROM check_rollups;

-- name: CheckDaysAdd :exec
INSERT INTO check_days (service_id, day, checks, failures, total_ms, longest_ms)
SELECT n.id, @day::date, n.checks, n.failures, n.total, n.longest
FROM (SELECT unnest(@services::bigint[]) AS id, unnest(@checks::integer[]) AS checks, unnest(@failures::integer[]) AS failures,
             unnest(@totals::bigint[]) AS total, unnest(@longests::integer[]) AS longest) AS n
JOIN services s ON s.id = n.id
ON CONFLICT (service_id, day) DO UPDATE SET
    checks = check_days.checks + excluded.checks, failures = check_days.failures + excluded.failures,
    total_ms = check_days.total_ms + excluded.total_ms, longest_ms = greatest(check_days.longest_ms, excluded.longest_ms);

-- name: CheckDaysOf :many
SELECT service_id, day, checks, failures, total_ms, longest_ms FROM check_days
WHERE service_id = ANY (@services::bigint[]) AND day >= @since::date ORDER BY service_id, day;

-- name: CheckDaysForget :exec
DELETE FROM check_days WHERE day < @before::date;

-- name: CheckDaysForgetService :exec
DELETE FROM check_days WHERE service_id = @service_id;
