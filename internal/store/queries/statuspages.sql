-- name: StatusPageCreate :one
INSERT INTO status_pages (account_id, slug, title, days, show_response_times, created, updated)
VALUES (@account_id, @slug, @title, @days, @show_response_times, @now, @now) RETURNING id;

-- name: StatusPageUpdate :execrows
UPDATE status_pages SET slug = @slug, title = @title, days = @days, show_response_times = @show_response_times, updated = @updated
WHERE id = @id AND account_id = @account_id;

-- name: StatusPageDelete :execrows
DELETE FROM status_pages WHERE account_id = @account_id AND id = @id;

-- name: StatusPagesCount :one
SELECT count(*) FROM status_pages WHERE account_id = @account_id;

-- name: StatusPageServicesClear :exec
DELETE FROM status_page_services WHERE page_id = @page_id;

-- name: StatusPageServicesSet :execrows
INSERT INTO status_page_services (page_id, service_id, position)
SELECT @page_id::bigint, s.id, p.position
FROM unnest(@ids::bigint[]) WITH ORDINALITY AS p (id, position) JOIN services s ON s.id = p.id AND s.account_id = @account_id;

-- name: StatusPageDatabasesClear :exec
DELETE FROM status_page_databases WHERE page_id = @page_id;

-- name: StatusPageDatabasesSet :execrows
INSERT INTO status_page_databases (page_id, cluster_id, position)
SELECT @page_id::bigint, c.id, p.position
FROM unnest(@ids::bigint[]) WITH ORDINALITY AS p (id, position) JOIN clusters c ON c.id = p.id AND c.account_id = @account_id AND c.deleted IS NULL;

-- name: ServicesThere :many
SELECT id FROM services WHERE account_id = @account_id AND id = ANY (@ids::bigint[]);

-- name: DatabasesThere :many
SELECT id FROM clusters WHERE account_id = @account_id AND deleted IS NULL AND id = ANY (@ids::bigint[]);

-- name: StatusPageServices :many
SELECT s.id, s.label, s.status, s.since FROM status_page_services p JOIN services s ON s.id = p.service_id WHERE p.page_id = @page_id ORDER BY p.position;

-- name: StatusPageDatabases :many
SELECT c.id, c.label, c.status FROM status_page_databases p JOIN clusters c ON c.id = p.cluster_id
WHERE p.page_id = @page_id AND c.deleted IS NULL ORDER BY p.position;

-- name: StatusPageIncidents :many
SELECT i.id, i.ticket_id, i.created, i.closed, coalesce(i.cause, '')::text AS cause,
       ARRAY(SELECT s.service_id FROM issue_services s WHERE s.issue_id = i.id AND s.service_id = ANY (@services::bigint[]) ORDER BY s.joined, s.service_id)::bigint[] AS affected
FROM issues i
WHERE i.account_id = @account_id AND (i.closed IS NULL OR i.closed >= @since::timestamptz)
  AND EXISTS (SELECT 1 FROM ticket_replies r WHERE r.ticket_id = i.ticket_id AND r.public)
  AND (EXISTS (SELECT 1 FROM issue_services s WHERE s.issue_id = i.id AND s.service_id = ANY (@services::bigint[]))
       OR substring(i.cause FROM '^database/([0-9]+)')::bigint = ANY (@databases::bigint[]))
ORDER BY i.id DESC LIMIT @most;

-- name: RepliesPublic :many
SELECT id, ticket_id, text, created FROM ticket_replies WHERE ticket_id = ANY (@tickets::bigint[]) AND public ORDER BY id;

-- name: ReplyPublish :execrows
UPDATE ticket_replies r SET public = @public FROM tickets t
WHERE r.id = @id AND r.ticket_id = @ticket_id AND r.kind = 'reply' AND t.id = r.ticket_id AND t.account_id = @account_id;
