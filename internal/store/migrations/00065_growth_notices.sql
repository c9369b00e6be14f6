-- +goose Up
-- A notice may be of a database with autoscale that filled up, too, at window_start.
ALTER TABLE notices DROP CONSTRAINT notices_kind_check, ADD CONSTRAINT notices_kind_check
    CHECK (kind IN ('opened', 'recovered', 'unwatched', 'announced', 'begun', 'done', 'unfinished', 'grown', 'full'));

-- +goose Down
DELETE FROM notices WHERE kind IN ('grown', 'full');
ALTER TABLE notices DROP CONSTRAINT notices_kind_check, ADD CONSTRAINT notices_kind_check
    CHECK (kind IN ('opened', 'recovered', 'unwatched', 'announced', 'begun', 'done', 'unfinished'));
