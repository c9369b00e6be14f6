-- +goose Up
-- Whether a database moves to the next plan when so many percent of its disk are in use (0 for the default), and to which at most. The last
-- time that this was begun, or found to be impossible, was for which plan.
ALTER TABLE clusters ADD COLUMN autoscale boolean NOT NULL DEFAULT false;
ALTER TABLE clusters ADD COLUMN autoscale_percent integer NOT NULL DEFAULT 0 CHECK (autoscale_percent = 0 OR autoscale_percent BETWEEN 50 AND 90);
ALTER TABLE clusters ADD COLUMN autoscale_max text NOT NULL DEFAULT '';
ALTER TABLE clusters ADD COLUMN autoscale_from text NOT NULL DEFAULT '';
ALTER TABLE clusters ADD COLUMN autoscale_at timestamptz;

-- +goose Down
ALTER TABLE clusters DROP COLUMN autoscale_at;
ALTER TABLE clusters DROP COLUMN autoscale_from;
ALTER TABLE clusters DROP COLUMN autoscale_max;
ALTER TABLE clusters DROP COLUMN autoscale_percent;
ALTER TABLE clusters DROP COLUMN autoscale;
