-- name: LeaseHeld :execrows
SELECT 1 FROM leases WHERE key = @key AND token = @token FOR SHARE;

-- name: LeasesForget :exec
DELETE FROM leases WHERE key = ANY (@keys::bigint[]);
