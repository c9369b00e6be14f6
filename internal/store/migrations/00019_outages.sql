-- +goose Up
-- All that an issue's services are known by: names, and the addresses that their
-- checks found behind them.
ALTER TABLE issues ADD COLUMN hosts text[] NOT NULL DEFAULT '{}';
UPDATE issues SET hosts = ARRAY[host] WHERE closed IS NULL AND host <> '';

-- What an issue is about when that isn't a service, in a word or two.
ALTER TABLE issues ADD COLUMN about text NOT NULL DEFAULT '';

-- Whether an issue's service ended without being well again: disabled or deleted.
ALTER TABLE issue_services ADD COLUMN unwatched boolean NOT NULL DEFAULT false;
ALTER TABLE ticket_replies DROP CONSTRAINT ticket_replies_kind_check, ADD CONSTRAINT ticket_replies_kind_check
    CHECK (kind IN ('opened', 'joined', 'notice', 'recovered', 'unwatched', 'closed', 'reply'));

-- Which service an opening tells of; 0 for other causes, and for what tells of the
-- end of an issue. Until now a recipient was told of an issue's first service alone.
ALTER TABLE notices ADD COLUMN service_id bigint NOT NULL DEFAULT 0;
UPDATE notices SET service_id = coalesce(
    (SELECT s.service_id FROM issue_services s WHERE s.issue_id = notices.issue_id ORDER BY s.joined, s.service_id LIMIT 1), 0)
FROM issues i WHERE i.id = notices.issue_id AND i.closed IS NULL AND notices.kind = 'opened';
ALTER TABLE notices DROP CONSTRAINT notices_kind_check, ADD CONSTRAINT notices_kind_check
    CHECK (kind IN ('opened', 'recovered', 'unwatched'));
ALTER TABLE notices DROP CONSTRAINT notices_once, ADD CONSTRAINT notices_once
    UNIQUE (issue_id, kind, channel, recipient, service_id);

-- +goose Down
DELETE FROM notices n USING notices o
WHERE o.issue_id = n.issue_id AND o.channel = n.channel AND o.recipient = n.recipient AND o.id < n.id
  AND (o.kind = 'opened') = (n.kind = 'opened');
UPDATE notices SET kind = 'recovered' WHERE kind = 'unwatched';
ALTER TABLE notices DROP CONSTRAINT notices_once, ADD CONSTRAINT notices_once UNIQUE (issue_id, kind, channel, recipient);
ALTER TABLE notices DROP CONSTRAINT notices_kind_check, ADD CONSTRAINT notices_kind_check CHECK (kind IN ('opened', 'recovered'));
ALTER TABLE notices DROP COLUMN service_id;
UPDATE ticket_replies SET kind = 'recovered' WHERE kind = 'unwatched';
ALTER TABLE ticket_replies DROP CONSTRAINT ticket_replies_kind_check, ADD CONSTRAINT ticket_replies_kind_check
    CHECK (kind IN ('opened', 'joined', 'notice', 'recovered', 'closed', 'reply'));
ALTER TABLE issue_services DROP COLUMN unwatched;
ALTER TABLE issues DROP COLUMN hosts, DROP COLUMN about;
