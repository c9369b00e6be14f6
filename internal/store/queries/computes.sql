-- name: ComputeEnsure :exec
INSERT INTO computes (account_id, label, created, updated)
VALUES (@account_id, @label, @now, @now)
ON CONFLICT ON CONSTRAINT computes_label_unique DO NOTHING;

-- name: ComputeCreate :one
INSERT INTO computes (account_id, label, group_name, source, created, updated)
VALUES (@account_id, @label, @group_name, @source, @now, @now)
RETURNING *;

-- name: ComputeGet :one
SELECT * FROM computes WHERE account_id = @account_id AND id = @id;

-- name: ComputeLock :one
SELECT * FROM computes WHERE account_id = @account_id AND id = @id FOR UPDATE;

-- name: ComputeAll :many
SELECT * FROM computes ORDER BY id;

-- name: ComputeUpdateSSH :execrows
UPDATE computes SET ssh_access = @ssh_access, ssh_user = @ssh_user, ssh_ip = @ssh_ip, ssh_port = @ssh_port,
       ssh_host_key = @ssh_host_key, updated = @updated
WHERE account_id = @account_id AND id = @id;

-- name: ComputeDelete :execrows
DELETE FROM computes WHERE account_id = @account_id AND id = @id;

-- name: PointsDrop :exec
DELETE FROM compute_points WHERE at < @before;
