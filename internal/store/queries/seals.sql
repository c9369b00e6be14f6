-- name: SecretsAfter :many
SELECT cluster_id AS owner, name, sealed FROM cluster_secrets
WHERE (cluster_id, name) > (@owner::bigint, @name::text) ORDER BY cluster_id, name LIMIT @most::int;

-- name: SecretReseal :execrows
UPDATE cluster_secrets SET sealed = @fresh WHERE cluster_id = @owner AND name = @name AND sealed = @old;

-- name: AccountKeysAfter :many
SELECT account_id AS owner, name, sealed FROM account_keys
WHERE (account_id, name) > (@owner::bigint, @name::text) ORDER BY account_id, name LIMIT @most::int;

-- name: AccountKeyReseal :execrows
UPDATE account_keys SET sealed = @fresh WHERE account_id = @owner AND name = @name AND sealed = @old;
