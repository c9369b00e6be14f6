-- +goose Up
-- Databases from elsewhere can be followed until they are cut over.
ALTER TABLE migrations DROP CONSTRAINT migrations_mode_check;
ALTER TABLE migrations ADD CONSTRAINT migrations_mode_check CHECK (mode IN ('dump', 'replicate'));
-- When its cutover was asked for.
ALTER TABLE migrations ADD COLUMN cutover timestamptz CONSTRAINT migrations_cutover_check CHECK (cutover IS NULL OR mode = 'replicate');

-- +goose Down
ALTER TABLE migrations DROP COLUMN cutover;
DELETE FROM migrations WHERE mode = 'replicate';
ALTER TABLE migrations DROP CONSTRAINT migrations_mode_check;
ALTER TABLE migrations ADD CONSTRAINT migrations_mode_check CHECK (mode = 'dump');
