-- name: AccountLock :exec
SELECT pg_advisory_xact_lock(@key::bigint);

-- name: IssueToJoin :one
SELECT i.id, i.ticket_id FROM issues i
WHERE i.account_id = @account_id AND (i.host = ANY (@hosts::text[]) OR i.hosts && @hosts::text[]) AND i.cause IS NULL AND i.closed IS NULL
  AND greatest(i.created, (SELECT max(s.joined) FROM issue_services s WHERE s.issue_id = i.id)) >= @since::timestamptz
ORDER BY i.id DESC LIMIT 1;

-- name: TicketCreate :one
INSERT INTO tickets (account_id, summary, status, opened, updated) VALUES (@account_id, @summary, 'open', @opened, @opened) RETURNING id;

-- name: IssueCreate :one
INSERT INTO issues (account_id, ticket_id, host, hosts, cause, about, contacts, created)
VALUES (@account_id, @ticket_id, @host, @hosts::text[], @cause, @about, @contacts, @created)
RETURNING id;

-- name: IssueAddHosts :exec
UPDATE issues SET hosts = ARRAY(SELECT unnest(hosts) UNION SELECT unnest(@hosts::text[])) WHERE id = @id;

-- name: IssueOfService :one
SELECT issue_id FROM issue_services WHERE service_id = @service_id AND recovered IS NULL;

-- name: IssuesOpen :many
SELECT id FROM issues WHERE account_id = @account_id AND closed IS NULL ORDER BY id;

-- name: IssueServiceAdd :execrows
INSERT INTO issue_services (issue_id, account_id, service_id, label, joined)
VALUES (@issue_id, @account_id, @service_id, @label, @joined) ON CONFLICT DO NOTHING;

-- name: IssueServiceReopen :execrows
UPDATE issue_services SET recovered = NULL, unwatched = false, joined = @joined WHERE issue_id = @issue_id AND service_id = @service_id AND recovered IS NOT NULL;

-- name: IssueServiceRecover :one
UPDATE issue_services SET recovered = greatest(joined, @ended::timestamptz), unwatched = @unwatched
WHERE service_id = @service_id AND recovered IS NULL RETURNING issue_id;

-- name: IssueOpenServices :one
SELECT count(*) FROM issue_services WHERE issue_id = @issue_id AND recovered IS NULL;

-- name: IssueServices :many
SELECT i.service_id, i.label, i.joined, i.recovered, i.unwatched, s.address, s.consultation_group, s.reason
FROM issue_services i LEFT JOIN services s ON s.id = i.service_id
WHERE i.issue_id = @issue_id ORDER BY i.joined, i.service_id;

-- name: IssuesOfCause :many
SELECT id FROM issues WHERE account_id = @account_id AND closed IS NULL AND (cause = @cause::text OR starts_with(cause, @cause::text || '/'))
ORDER BY id;

-- name: IssueClose :execrows
UPDATE issues SET closed = greatest(created, @closed::timestamptz) WHERE id = @id AND closed IS NULL;

-- name: TicketClose :exec
UPDATE tickets SET status = 'closed', closed = greatest(opened, @closed::timestamptz), updated = greatest(opened, @closed::timestamptz)
WHERE id = @id AND status = 'open';

-- name: ReplyAdd :one
INSERT INTO ticket_replies (ticket_id, kind, created_by, from_staff, text, public, created)
VALUES (@ticket_id, @kind, @created_by, @from_staff, @text, @public, @created) RETURNING id;

-- name: TicketTouch :exec
UPDATE tickets SET updated = greatest(updated, @at::timestamptz) WHERE id = @id;
