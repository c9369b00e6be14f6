-- +goose Up
-- Whom a service's checks go to, as monitor.Address has it. What is there already
-- is filled in about as well as SQL can, and exactly with the next change.
ALTER TABLE services ADD COLUMN host text NOT NULL DEFAULT '';
UPDATE services SET host = lower(trim(BOTH '[]' FROM substring(address FROM '^(?:[A-Za-z]+://)?(\[[^]]*\]|[^:/?]*)')));
CREATE INDEX services_host ON services (host, check_interval) WHERE status <> 'disabled';
CREATE INDEX services_checks ON services (account_id, check_interval) WHERE status <> 'disabled';

-- +goose Down
DROP INDEX services_checks, services_host;
ALTER TABLE services DROP COLUMN host;
