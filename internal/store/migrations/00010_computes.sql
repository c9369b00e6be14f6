-- +goose Up
-- The machines whose load is shown and that staff may log in to.
CREATE TABLE computes (
    id         bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT computes_pkey PRIMARY KEY,
    account_id bigint NOT NULL CONSTRAINT computes_account_fkey REFERENCES accounts (id),
    label      text NOT NULL,
    group_name text NOT NULL DEFAULT '',
    -- A node_exporter's URL; NULL: the steward server of this host name samples itself.
    source     text,
    ssh_access boolean NOT NULL DEFAULT true,
    ssh_user   text,
    ssh_ip     text NOT NULL DEFAULT 'any',
    ssh_port   integer CONSTRAINT computes_ssh_port_check CHECK (ssh_port BETWEEN 1 AND 65535),
    -- What the machine has shown at the first log-in, as an authorized_keys line.
    ssh_host_key text,
    created    timestamptz NOT NULL,
    updated    timestamptz NOT NULL,
    CONSTRAINT computes_label_unique UNIQUE (account_id, label)
);

-- One point each five minutes and machine: the averages of the seconds that were
-- measured. NULL is what wasn't known.
CREATE TABLE compute_points (
    compute_id bigint NOT NULL CONSTRAINT compute_points_compute_fkey REFERENCES computes (id) ON DELETE CASCADE,
    at         timestamptz NOT NULL,
    cpu        double precision,
    disk       double precision,
    swap       double precision,
    net_in     double precision,
    net_out    double precision,
    covered    double precision NOT NULL CONSTRAINT compute_points_covered_check CHECK (covered > 0),
    CONSTRAINT compute_points_pkey PRIMARY KEY (compute_id, at)
);
CREATE INDEX compute_points_at ON compute_points (at);

-- +goose Down
DROP TABLE compute_points, computes;
