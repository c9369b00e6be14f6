-- +goose Up
-- What is monitored. generation counts the changes that the checks must know of.
CREATE TABLE services (
    id                 bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT services_pkey PRIMARY KEY,
    account_id         bigint NOT NULL CONSTRAINT services_account_fkey REFERENCES accounts (id),
    label              text NOT NULL,
    service_type       text NOT NULL CONSTRAINT services_type_check CHECK (service_type IN ('url', 'tcp')),
    address            text NOT NULL,
    timeout            integer NOT NULL CONSTRAINT services_timeout_check CHECK (timeout BETWEEN 1 AND 255),
    body               text NOT NULL,
    consultation_group text NOT NULL,
    notes              text NOT NULL,
    region             text NOT NULL,
    -- In seconds; 0: the operator's.
    check_interval     integer NOT NULL CONSTRAINT services_interval_check CHECK (check_interval BETWEEN 0 AND 86400),
    status             text NOT NULL CONSTRAINT services_status_check CHECK (status IN ('disabled', 'pending', 'ok', 'problem')),
    since              timestamptz NOT NULL,
    reason             text NOT NULL DEFAULT '',
    -- When the certificate that the last checks were shown ends.
    certificate_ends   timestamptz,
    -- Which part of the services it is in: monitor.Shards.
    shard              integer GENERATED ALWAYS AS (id % 256) STORED,
    generation         bigint NOT NULL DEFAULT 1,
    created            timestamptz NOT NULL,
    updated            timestamptz NOT NULL
);
CREATE INDEX services_account ON services (account_id, id);
CREATE INDEX services_shard ON services (shard);

CREATE TABLE service_credentials (
    service_id    bigint NOT NULL CONSTRAINT service_credentials_service_fkey REFERENCES services (id) ON DELETE CASCADE,
    credential_id bigint NOT NULL CONSTRAINT service_credentials_credential_fkey REFERENCES credentials (id) ON DELETE CASCADE,
    position      integer NOT NULL,
    CONSTRAINT service_credentials_pkey PRIMARY KEY (service_id, credential_id)
);
CREATE INDEX service_credentials_credential ON service_credentials (credential_id);

-- The servers that check services, each as long as it says that it lives. All
-- checks that were due before its watermark have begun.
CREATE TABLE watchers (
    id        text CONSTRAINT watchers_pkey PRIMARY KEY,
    expires   timestamptz NOT NULL,
    watermark timestamptz NOT NULL
);

-- Which of them checks a shard of the services. Its epoch grows with every new
-- holder: what an earlier one still has to say is not taken. changed counts the
-- changes of the shard's services. released is the watermark of a holder that
-- gave it away.
CREATE TABLE shards (
    id      integer CONSTRAINT shards_pkey PRIMARY KEY,
    holder  text NOT NULL DEFAULT '',
    epoch   bigint NOT NULL DEFAULT 0,
    changed bigint NOT NULL DEFAULT 0,
    released timestamptz
);
INSERT INTO shards (id) SELECT generate_series(0, 255);

-- A support ticket tells people what an issue is about and what was done.
CREATE TABLE tickets (
    id         bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT tickets_pkey PRIMARY KEY,
    account_id bigint NOT NULL CONSTRAINT tickets_account_fkey REFERENCES accounts (id),
    summary    text NOT NULL,
    status     text NOT NULL CONSTRAINT tickets_status_check CHECK (status IN ('open', 'closed')),
    opened     timestamptz NOT NULL,
    updated    timestamptz NOT NULL,
    closed     timestamptz,
    CONSTRAINT tickets_closed_check CHECK ((status = 'closed') = (closed IS NOT NULL))
);
CREATE INDEX tickets_account ON tickets (account_id, id);

CREATE TABLE ticket_replies (
    id         bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT ticket_replies_pkey PRIMARY KEY,
    ticket_id  bigint NOT NULL CONSTRAINT ticket_replies_ticket_fkey REFERENCES tickets (id) ON DELETE CASCADE,
    kind       text NOT NULL CONSTRAINT ticket_replies_kind_check CHECK (kind IN (
        'opened', 'joined', 'notice', 'recovered', 'closed', 'reply')),
    created_by text NOT NULL,
    from_staff boolean NOT NULL,
    text       text NOT NULL,
    created    timestamptz NOT NULL
);
CREATE INDEX ticket_replies_ticket ON ticket_replies (ticket_id, id);

-- One outage. cause names what isn't a service, such as a database whose disk is
-- full: there is at most one open issue of each.
CREATE TABLE issues (
    id         bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT issues_pkey PRIMARY KEY,
    account_id bigint NOT NULL CONSTRAINT issues_account_fkey REFERENCES accounts (id),
    ticket_id  bigint NOT NULL CONSTRAINT issues_ticket_fkey REFERENCES tickets (id),
    host       text NOT NULL,
    cause      text,
    created    timestamptz NOT NULL,
    closed     timestamptz,
    CONSTRAINT issues_ticket_unique UNIQUE (ticket_id)
);
CREATE INDEX issues_account ON issues (account_id, id);
CREATE UNIQUE INDEX issues_cause_unique ON issues (account_id, cause) WHERE closed IS NULL;

-- The services of an issue. A service may be gone; its issue is history.
CREATE TABLE issue_services (
    issue_id   bigint NOT NULL CONSTRAINT issue_services_issue_fkey REFERENCES issues (id) ON DELETE CASCADE,
    account_id bigint NOT NULL,
    service_id bigint NOT NULL,
    label      text NOT NULL,
    joined     timestamptz NOT NULL,
    recovered  timestamptz,
    CONSTRAINT issue_services_pkey PRIMARY KEY (issue_id, service_id)
);
CREATE UNIQUE INDEX issue_services_open_unique ON issue_services (service_id) WHERE recovered IS NULL;
CREATE INDEX issue_services_service ON issue_services (service_id, joined);

-- The results of checks, packed: a row has those of one shard over some seconds.
-- A partition a day; whole days are dropped.
CREATE TABLE check_blocks (
    shard   integer NOT NULL,
    started timestamptz NOT NULL,
    ended   timestamptz NOT NULL,
    packed  bytea NOT NULL
) PARTITION BY RANGE (started);
CREATE INDEX check_blocks_shard ON check_blocks (shard, started);

-- What is left of them for the month after.
CREATE TABLE check_hours (
    service_id bigint NOT NULL,
    hour       timestamptz NOT NULL,
    checks     integer NOT NULL,
    failures   integer NOT NULL,
    total_ms   bigint NOT NULL,
    longest_ms integer NOT NULL,
    CONSTRAINT check_hours_pkey PRIMARY KEY (service_id, hour)
) PARTITION BY RANGE (hour);

-- The hours that have been summed up.
CREATE TABLE check_rollups (
    hour timestamptz CONSTRAINT check_rollups_pkey PRIMARY KEY
);

-- +goose Down
DROP TABLE check_rollups, check_hours, check_blocks, issue_services, issues, ticket_replies, tickets, shards, watchers, service_credentials, services;
