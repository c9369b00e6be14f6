-- name: NoticesCreate :execrows
INSERT INTO notices (account_id, issue_id, service_id, cluster_id, window_start, kind, channel, recipient, name, content, state, due, give_up, created)
SELECT n.account_id, nullif(n.issue_id, 0), n.service_id, nullif(n.cluster_id, 0), CASE WHEN n.cluster_id <> 0 THEN n.window_start END,
    n.kind, n.channel, n.recipient, n.name, n.content, 'pending', @now::timestamptz, @give_up::timestamptz, @now::timestamptz
FROM (
    SELECT unnest(@accounts::bigint[]) AS account_id, unnest(@issues::bigint[]) AS issue_id, unnest(@services::bigint[]) AS service_id,
        unnest(@clusters::bigint[]) AS cluster_id, unnest(@windows::timestamptz[]) AS window_start, unnest(@kinds::text[]) AS kind,
        unnest(@channels::text[]) AS channel, unnest(@recipients::text[]) AS recipient, unnest(@names::text[]) AS name, unnest(@contents::jsonb[]) AS content
) n
ON CONFLICT DO NOTHING;

-- name: NoticesClaim :many
WITH first AS (
    SELECT id, account_id, channel, recipient, due FROM notices n
    WHERE state IN ('pending', 'sending') AND due <= @now::timestamptz
      AND (channel = ANY (@channels::text[])) <> @others::boolean AND recipient <> ALL (@busy::text[]) AND account_id <> ALL (@busy_accounts::bigint[])
      AND id <> ALL (@at_it::bigint[])
      AND (kind = 'opened' OR NOT EXISTS (
          SELECT 1 FROM notices o
          WHERE o.issue_id = n.issue_id AND o.kind = 'opened' AND o.channel = n.channel AND o.recipient = n.recipient
            AND o.state IN ('pending', 'sending')))
      AND NOT EXISTS (
          SELECT 1 FROM notices o
          WHERE o.cluster_id = n.cluster_id AND o.window_start = n.window_start AND o.channel = n.channel AND o.recipient = n.recipient
            AND o.id < n.id AND o.state IN ('pending', 'sending'))
    ORDER BY due, id LIMIT 64
), ranked AS (
    SELECT id, account_id, due, row_number() OVER (PARTITION BY channel, recipient ORDER BY due, id) AS place FROM first
), fair AS (
    SELECT id, row_number() OVER (PARTITION BY account_id ORDER BY due, id) AS place FROM ranked WHERE place <= @each::bigint
), claimed AS (
    SELECT n.id FROM notices n JOIN fair r ON r.id = n.id
    WHERE r.place <= @each_account::bigint AND n.state IN ('pending', 'sending') AND n.due <= @now::timestamptz
    ORDER BY n.due, n.id LIMIT @most FOR UPDATE OF n SKIP LOCKED
)
UPDATE notices n SET state = 'sending', holder = @holder, attempts = n.attempts + 1, due = @until
FROM claimed c JOIN notices t ON t.id = c.id LEFT JOIN issues i ON i.id = t.issue_id
    LEFT JOIN LATERAL (
        SELECT min(o.id) AS id, (array_agg(o.created ORDER BY o.id))[1] AS created, bool_and(o.state = 'failed') AS failed FROM notices o
        WHERE o.channel = t.channel AND o.recipient = t.recipient
          AND (t.kind <> 'opened' AND o.issue_id = t.issue_id AND o.kind = 'opened'
            OR o.cluster_id = t.cluster_id AND o.window_start = t.window_start AND o.id < t.id)
    ) o ON true
WHERE n.id = c.id
RETURNING n.id, n.account_id, coalesce(n.issue_id, 0)::bigint AS issue_id, n.service_id, coalesce(n.cluster_id, 0)::bigint AS cluster_id, n.window_start, n.kind, n.channel, n.recipient, n.name, n.content, n.state, n.attempts, n.due, n.give_up, n.problem,
    n.created, n.sent, i.closed AS over, coalesce(o.id, 0)::bigint AS opening, coalesce(o.created, n.created)::timestamptz AS opening_created,
    coalesce(o.failed, false)::boolean AS opening_failed;

-- name: NoticesRenew :many
UPDATE notices SET due = @until WHERE id = ANY (@ids::bigint[]) AND state = 'sending' AND holder = @holder RETURNING id;

-- name: NoticesRelease :execrows
UPDATE notices SET state = 'pending', holder = '', due = @now WHERE state = 'sending' AND holder = @holder AND id <> ALL (@at_it::bigint[]);

-- name: NoticeSent :execrows
UPDATE notices SET state = 'sent', holder = '', problem = '', sent = @sent::timestamptz WHERE id = @id AND state <> 'sent';

-- name: NoticeFailed :execrows
UPDATE notices SET state = @state, holder = '', problem = @problem, due = @due
WHERE id = @id AND state = 'sending' AND holder = @holder AND attempts = @attempts;

-- name: NoticesHasten :execrows
UPDATE notices SET due = @now WHERE state = 'pending' AND due > @now AND channel = @channel;

-- name: NoticesRetry :many
UPDATE notices SET state = 'pending', attempts = 0, due = @now::timestamptz, give_up = @give_up::timestamptz
WHERE (state = 'failed' AND (@every::boolean OR id = @id)) OR (state = 'pending' AND id = @id) RETURNING id;

-- name: NoticesList :many
SELECT id, account_id, coalesce(issue_id, 0)::bigint AS issue_id, service_id, coalesce(cluster_id, 0)::bigint AS cluster_id, window_start, kind, channel, recipient, name, content, state, attempts, due, give_up, problem, created, sent
FROM notices
WHERE (@account_id::bigint = 0 OR account_id = @account_id) AND (@issue_id::bigint = 0 OR issue_id = @issue_id)
  AND (@state::text = '' OR state = @state)
ORDER BY id DESC LIMIT @most;

-- name: NoticesCount :many
SELECT channel, state, count(*) AS notices, min(created)::timestamptz AS oldest
FROM notices WHERE state IN ('pending', 'sending') OR state = 'failed' GROUP BY channel, state;

-- name: NoticesTell :exec
SELECT pg_notify('steward_notices', '');
