-- name: Identity :one
SELECT id FROM identity;
