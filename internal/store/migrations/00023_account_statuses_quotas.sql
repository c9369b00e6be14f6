-- +goose Up
-- Accounts are the operator's: whom to write to, whether they are served, and what
-- they may have. NULL is the operator's default, -1 no bound.
ALTER TABLE accounts
    ADD COLUMN email         text NOT NULL DEFAULT '',
    ADD COLUMN status        text NOT NULL DEFAULT 'active' CONSTRAINT accounts_status_check CHECK (status IN ('active', 'suspended', 'deleting')),
    ADD COLUMN max_databases integer CONSTRAINT accounts_max_databases_check CHECK (max_databases >= -1),
    ADD COLUMN max_nodes     integer CONSTRAINT accounts_max_nodes_check CHECK (max_nodes >= -1),
    ADD COLUMN max_memory_gb integer CONSTRAINT accounts_max_memory_check CHECK (max_memory_gb >= -1),
    ADD COLUMN max_disk_gb   integer CONSTRAINT accounts_max_disk_check CHECK (max_disk_gb >= -1),
    ADD COLUMN max_services  integer CONSTRAINT accounts_max_services_check CHECK (max_services >= -1);
-- Whether a database rests because its account was suspended, and is to be started
-- again with it.
ALTER TABLE clusters ADD COLUMN rests_with_account boolean NOT NULL DEFAULT false;
CREATE INDEX clusters_rest_with_account ON clusters (account_id) WHERE rests_with_account;
-- +goose Down
DROP INDEX clusters_rest_with_account;
ALTER TABLE clusters DROP COLUMN rests_with_account;
ALTER TABLE accounts DROP COLUMN max_services, DROP COLUMN max_disk_gb, DROP COLUMN max_memory_gb, DROP COLUMN max_nodes, DROP COLUMN max_databases,
    DROP COLUMN status, DROP COLUMN email;
