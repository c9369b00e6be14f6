-- name: AlertSubjects :many
SELECT c.id, c.account_id, c.label, c.engine, c.region, c.created,
    (c.status IN ('provisioning', 'suspended') OR c.sleeping_since IS NOT NULL)::boolean AS rests,
    coalesce(b.proven, c.created)::timestamptz AS proven
FROM clusters c LEFT JOIN (
    SELECT cluster_id, max(created)::timestamptz AS proven FROM backups
    WHERE state = 'complete' AND problem = '' AND (verified IS NOT NULL OR NOT @verified::boolean) GROUP BY cluster_id
) b ON b.cluster_id = c.id
WHERE c.deleted IS NULL ORDER BY c.account_id, c.id;

-- name: AlertRulesAll :many
SELECT * FROM alert_rules ORDER BY account_id, id;

-- name: AlertRulesOf :many
SELECT * FROM alert_rules WHERE account_id = @account_id ORDER BY id;

-- name: AlertRuleLock :one
SELECT * FROM alert_rules WHERE account_id = @account_id AND id = @id FOR UPDATE;

-- name: AlertRuleID :one
SELECT nextval('alert_rules_id')::bigint;

-- name: AlertRuleSave :exec
INSERT INTO alert_rules (account_id, id, label, description, severity, enabled, criteria, period, polling, occurrences, scope, clusters, regions, channels,
    created, created_by, updated, updated_by)
VALUES (@account_id, @id, @label, @description, @severity, @enabled, @criteria, @period, @polling, @occurrences, @scope, @clusters::bigint[], @regions::text[],
    @channels::bigint[], @created, @created_by, @updated, @updated_by)
ON CONFLICT (account_id, id) DO UPDATE SET label = excluded.label, description = excluded.description, severity = excluded.severity, enabled = excluded.enabled,
    criteria = excluded.criteria, period = excluded.period, polling = excluded.polling, occurrences = excluded.occurrences, scope = excluded.scope,
    clusters = excluded.clusters, regions = excluded.regions, channels = excluded.channels, updated = excluded.updated, updated_by = excluded.updated_by;

-- name: AlertRuleDelete :execrows
DELETE FROM alert_rules WHERE account_id = @account_id AND id = @id;

-- name: AlertsOpen :many
SELECT account_id, cause::text AS cause FROM issues WHERE closed IS NULL AND cause LIKE '%/alert/%' ORDER BY account_id, id;

-- name: SlicesSince :many
SELECT cluster_id, started, node, packed FROM measured_slices
WHERE cluster_id = ANY (@clusters::bigint[]) AND started >= @since::timestamptz AND started < @until::timestamptz ORDER BY started;

-- name: AlertEntities :many
SELECT id, label, engine, region FROM clusters WHERE account_id = @account_id AND deleted IS NULL ORDER BY id;

-- name: ChannelsOf :many
SELECT id, label, kind, addresses, region, shown, created, created_by, updated, updated_by FROM alert_channels WHERE account_id = @account_id ORDER BY id;

-- name: ChannelLock :one
SELECT id, label, kind, addresses, region, shown, created, created_by, updated, updated_by FROM alert_channels
WHERE account_id = @account_id AND id = @id FOR UPDATE;

-- name: ChannelID :one
SELECT nextval(pg_get_serial_sequence('alert_channels', 'id'))::bigint;

-- name: ChannelCreate :exec
INSERT INTO alert_channels (id, account_id, label, kind, addresses, region, shown, sealed_url, sealed_secret, created, created_by, updated, updated_by)
OVERRIDING SYSTEM VALUE
VALUES (@id, @account_id, @label, @kind, @addresses::text[], @region, @shown, @sealed_url, @sealed_secret, @created, @created_by, @created, @created_by);

-- name: ChannelUpdate :execrows
UPDATE alert_channels SET label = @label, addresses = @addresses::text[], region = @region, shown = @shown,
    sealed_url = coalesce(sqlc.narg(sealed_url), sealed_url), sealed_secret = coalesce(sqlc.narg(sealed_secret), sealed_secret),
    updated = @updated, updated_by = @updated_by
WHERE account_id = @account_id AND id = @id;

-- name: ChannelDelete :execrows
DELETE FROM alert_channels WHERE account_id = @account_id AND id = @id;

-- name: ChannelForget :exec
UPDATE alert_rules SET channels = array_remove(channels, @id::bigint) WHERE account_id = @account_id AND @id::bigint = ANY (channels);

-- name: ChannelSealed :one
SELECT id, account_id, label, kind, region, sealed_url, sealed_secret FROM alert_channels WHERE account_id = @account_id AND id = @id;
