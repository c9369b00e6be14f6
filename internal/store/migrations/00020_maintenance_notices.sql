-- +goose Up
-- A notice is of an issue, or of the maintenance window of a database that opens at
-- window_start. Of a window each recipient is told of each kind of tidings once.
ALTER TABLE notices
    ALTER COLUMN issue_id DROP NOT NULL,
    ADD COLUMN cluster_id bigint CONSTRAINT notices_cluster_fkey REFERENCES clusters (id) ON DELETE CASCADE,
    ADD COLUMN window_start timestamptz,
    ADD CONSTRAINT notices_once_per_window UNIQUE (cluster_id, window_start, kind, channel, recipient);
ALTER TABLE notices DROP CONSTRAINT notices_kind_check, ADD CONSTRAINT notices_kind_check
    CHECK (kind IN ('opened', 'recovered', 'unwatched', 'announced', 'begun', 'done', 'unfinished'));
ALTER TABLE notices ADD CONSTRAINT notices_subject_check CHECK (CASE
    WHEN kind IN ('opened', 'recovered', 'unwatched') THEN issue_id IS NOT NULL AND cluster_id IS NULL AND window_start IS NULL
    ELSE issue_id IS NULL AND cluster_id IS NOT NULL AND window_start IS NOT NULL END);

-- +goose Down
DELETE FROM notices WHERE issue_id IS NULL;
ALTER TABLE notices DROP CONSTRAINT notices_subject_check;
ALTER TABLE notices DROP CONSTRAINT notices_kind_check, ADD CONSTRAINT notices_kind_check
    CHECK (kind IN ('opened', 'recovered', 'unwatched'));
ALTER TABLE notices DROP CONSTRAINT notices_once_per_window;
ALTER TABLE notices DROP COLUMN window_start, DROP COLUMN cluster_id, ALTER COLUMN issue_id SET NOT NULL;
