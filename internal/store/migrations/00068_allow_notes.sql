-- +goose Up
-- What items of the allow list are for, by item.
ALTER TABLE clusters ADD COLUMN allow_list_notes jsonb NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE clusters DROP COLUMN allow_list_notes;
