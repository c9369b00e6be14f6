-- name: ServiceCreate :one
INSERT INTO services (account_id, label, service_type, address, host, timeout, body, consultation_group, notes, region, check_interval,
                      status, since, created, updated)
VALUES (@account_id, @label, @service_type, @address, @host, @timeout, @body, @consultation_group, @notes, @region, @check_interval,
        @status, @now, @now, @now)
RETURNING id;

-- name: ServiceUpdate :execrows
UPDATE services SET label = @label, service_type = @service_type, address = @address, host = @host, timeout = @timeout, body = @body,
       consultation_group = @consultation_group, notes = @notes, region = @region, check_interval = @check_interval,
       status = @status, since = @since, reason = @reason, generation = generation + 1, updated = @updated,
       certificate_ends = CASE WHEN address = @address THEN certificate_ends END
WHERE id = @id AND generation = @generation;

-- name: ServiceAskCheck :execrows
UPDATE services SET check_asked = @now::timestamptz WHERE id = @id AND (check_asked IS NULL OR check_asked < @before::timestamptz);

-- name: ServiceDelete :execrows
DELETE FROM services WHERE id = @id;

-- name: ServiceCredentialsClear :exec
DELETE FROM service_credentials WHERE service_id = @service_id;

-- name: ServiceCredentialsSet :execrows
INSERT INTO service_credentials (service_id, credential_id, position)
SELECT @service_id::bigint, c.id, p.position
FROM unnest(@ids::bigint[]) WITH ORDINALITY AS p (id, position) JOIN credentials c ON c.id = p.id AND c.account_id = @account_id;

-- name: ServiceJudged :execrows
UPDATE services SET status = @status, since = @since, reason = @reason
WHERE id = @id AND generation = @generation AND status NOT IN ('disabled', @status);

-- name: ServicesShownCertificates :exec
UPDATE services SET certificate_ends = shown.ends
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@ends::timestamptz[]) AS ends) AS shown WHERE services.id = shown.id;

-- name: ServicesOfShards :many
SELECT s.id, s.account_id, s.label, s.service_type, s.address, s.timeout, s.body, s.region, s.check_interval, s.status, s.generation, s.certificate_ends, s.check_asked,
       ARRAY(SELECT i.joined FROM issue_services i WHERE i.service_id = s.id AND i.joined > @lately::timestamptz ORDER BY i.joined)::timestamptz[] AS downs
FROM services s JOIN accounts a ON a.id = s.account_id
WHERE s.shard = ANY (@shards::integer[]) AND s.status <> 'disabled' AND a.status = 'active';

-- name: CredentialsThere :one
SELECT count(*) FROM credentials WHERE account_id = @account_id AND id = ANY (@ids::bigint[]);

-- name: ChecksOfAccount :one
SELECT coalesce(sum(60.0 / CASE check_interval WHEN 0 THEN @usual::float8 ELSE check_interval END), 0)::float8
FROM services WHERE account_id = @account_id AND status <> 'disabled' AND id <> @others_than::bigint;

-- name: ChecksOfHost :one
SELECT coalesce(sum(60.0 / CASE check_interval WHEN 0 THEN @usual::float8 ELSE check_interval END), 0)::float8
FROM services WHERE host = @host AND status <> 'disabled' AND id <> @others_than::bigint;
