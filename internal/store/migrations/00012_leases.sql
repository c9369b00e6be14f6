-- +goose Up
-- Whoever takes the lease of a cluster gets a token that is newer than all before: what
-- an earlier holder still has to write comes with an older one, and isn't taken.
CREATE SEQUENCE lease_tokens;
CREATE TABLE leases (key bigint PRIMARY KEY, token bigint NOT NULL);

-- +goose Down
DROP TABLE leases;
DROP SEQUENCE lease_tokens;
