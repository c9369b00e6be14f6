-- +goose Up
-- The transaction that an event was last changed by, and word of it to those who follow events. Which
-- rows changed between two snapshots follows from it without a gap, however transactions overlap.
-- Rows that are older were changed before anybody followed.
ALTER TABLE operations ADD COLUMN changed xid8 NOT NULL DEFAULT '0';
CREATE INDEX operations_changed ON operations (changed, id);

-- +goose StatementBegin
CREATE FUNCTION operations_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed := pg_catalog.pg_current_xact_id();
    PERFORM pg_catalog.pg_notify('steward_events', '');
    RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE TRIGGER operations_inserted BEFORE INSERT ON operations FOR EACH ROW EXECUTE FUNCTION operations_changed();
CREATE TRIGGER operations_updated BEFORE UPDATE ON operations FOR EACH ROW
    WHEN ((OLD.status, OLD.percent, OLD.message, OLD.started, OLD.finished) IS DISTINCT FROM (NEW.status, NEW.percent, NEW.message, NEW.started, NEW.finished))
    EXECUTE FUNCTION operations_changed();

-- +goose Down
DROP TRIGGER operations_updated ON operations;
DROP TRIGGER operations_inserted ON operations;
DROP FUNCTION operations_changed();
ALTER TABLE operations DROP COLUMN changed;
