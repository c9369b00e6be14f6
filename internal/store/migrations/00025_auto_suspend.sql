-- +goose Up
-- After how many minutes without a session a database falls asleep, 0 for never, and
-- since when it does.
ALTER TABLE clusters ADD COLUMN auto_suspend integer NOT NULL DEFAULT 0 CHECK (auto_suspend BETWEEN 0 AND 10080);
ALTER TABLE clusters ADD COLUMN sleeping_since timestamptz;

-- +goose Down
ALTER TABLE clusters DROP COLUMN sleeping_since;
ALTER TABLE clusters DROP COLUMN auto_suspend;
