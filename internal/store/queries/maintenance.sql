-- name: ClusterTasks :exec
UPDATE clusters SET tasks = @tasks WHERE id = @id AND tasks IS DISTINCT FROM @tasks::jsonb;

-- name: ClusterTasksFound :execrows
UPDATE clusters SET tasks = @tasks WHERE id = @id AND generation = @generation;

-- name: WindowAnnounced :execrows
UPDATE clusters SET window_announced = @start::timestamptz
WHERE id = @id AND deleted IS NULL AND window_announced IS DISTINCT FROM @start::timestamptz;

-- name: WindowBegun :execrows
UPDATE clusters SET window_begun = @start::timestamptz
WHERE id = @id AND deleted IS NULL AND (window_begun IS NULL OR window_begun < @start::timestamptz);

-- name: MaintenanceLock :exec
SELECT pg_advisory_xact_lock(@class::int, 0);

-- name: MaintenanceRunning :one
SELECT count(*) FROM operations WHERE finished IS NULL AND action = 'database_maintenance';
