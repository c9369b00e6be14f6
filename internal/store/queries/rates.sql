-- name: RateTake :one
INSERT INTO rate_counts AS r (key, minute, taken) VALUES (@key, @minute, @n)
ON CONFLICT ON CONSTRAINT rate_counts_pkey DO UPDATE SET taken = least(r.taken::bigint + excluded.taken, 2000000000)::integer
RETURNING taken;

-- name: RatesPurge :exec
DELETE FROM rate_counts WHERE minute < @before;
