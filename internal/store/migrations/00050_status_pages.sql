-- +goose Up
-- What checks of a service found on each day, UTC, of the hours that were summed up: for the bars of status pages.
CREATE TABLE check_days (
    service_id bigint NOT NULL,
    day        date NOT NULL,
    checks     bigint NOT NULL,
    failures   bigint NOT NULL,
    total_ms   bigint NOT NULL,
    longest_ms integer NOT NULL,
    CONSTRAINT check_days_pkey PRIMARY KEY (service_id, day)
);
CREATE INDEX check_days_day ON check_days (day);
INSERT INTO check_days (service_id, day, checks, failures, total_ms, longest_ms)
SELECT h.service_id, (h.hour AT TIME ZONE 'UTC')::date, sum(h.checks), sum(h.failures), sum(h.total_ms), max(h.longest_ms)
FROM check_hours h JOIN services s ON s.id = h.service_id GROUP BY 1, 2;

-- Whether status pages may show an entry of a ticket.
ALTER TABLE ticket_replies ADD COLUMN public boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT ticket_replies_public_check CHECK (NOT public OR kind = 'reply');
CREATE INDEX ticket_replies_public ON ticket_replies (ticket_id) WHERE public;

-- Pages that anybody may read who knows the slug.
CREATE TABLE status_pages (
    id                  bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT status_pages_pkey PRIMARY KEY,
    account_id          bigint NOT NULL CONSTRAINT status_pages_account_fkey REFERENCES accounts (id),
    slug                text NOT NULL CONSTRAINT status_pages_slug_unique UNIQUE,
    title               text NOT NULL,
    days                integer NOT NULL CONSTRAINT status_pages_days_check CHECK (days BETWEEN 1 AND 400),
    show_response_times boolean NOT NULL,
    created             timestamptz NOT NULL,
    updated             timestamptz NOT NULL
);
CREATE INDEX status_pages_account ON status_pages (account_id, id);
CREATE TABLE status_page_services (
    page_id    bigint NOT NULL CONSTRAINT status_page_services_page_fkey REFERENCES status_pages (id) ON DELETE CASCADE,
    service_id bigint NOT NULL CONSTRAINT status_page_services_service_fkey REFERENCES services (id) ON DELETE CASCADE,
    position   integer NOT NULL,
    CONSTRAINT status_page_services_pkey PRIMARY KEY (page_id, service_id)
);
CREATE INDEX status_page_services_service ON status_page_services (service_id);
CREATE TABLE status_page_databases (
    page_id    bigint NOT NULL CONSTRAINT status_page_databases_page_fkey REFERENCES status_pages (id) ON DELETE CASCADE,
    cluster_id bigint NOT NULL CONSTRAINT status_page_databases_cluster_fkey REFERENCES clusters (id) ON DELETE CASCADE,
    position   integer NOT NULL,
    CONSTRAINT status_page_databases_pkey PRIMARY KEY (page_id, cluster_id)
);
CREATE INDEX status_page_databases_cluster ON status_page_databases (cluster_id);

-- +goose Down
DROP TABLE status_page_databases, status_page_services, status_pages, check_days;
ALTER TABLE ticket_replies DROP COLUMN public;
