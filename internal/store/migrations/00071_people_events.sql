-- +goose Up
-- Whose own an event is, who sees it though grants bind that user, and what names its entity in a path where no number does.
ALTER TABLE operations ADD COLUMN owner_id bigint NOT NULL DEFAULT 0, ADD COLUMN entity_key text NOT NULL DEFAULT '';

-- Word of what changes without an event of its own, to those who follow events: which list, of which account, of which user; 0 for any.
-- +goose StatementBegin
CREATE FUNCTION changes_tell(list text, account bigint, owner bigint) RETURNS void LANGUAGE sql AS $$
    SELECT pg_catalog.pg_notify('steward_events', list || ' ' || account || ' ' || owner);
$$;

CREATE FUNCTION audit_added() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    line record;
BEGIN
    FOR line IN SELECT DISTINCT account_id, CASE WHEN action = 'POST /oauth/authorize' THEN user_id ELSE 0 END AS login FROM added LOOP
        PERFORM changes_tell('audit', line.account_id, 0);
        IF line.login <> 0 THEN
            PERFORM changes_tell('logins', line.account_id, line.login);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

CREATE FUNCTION apps_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM changes_tell('apps', 0, OLD.user_id);
    ELSE
        PERFORM changes_tell('apps', 0, NEW.user_id);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION accounts_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM changes_tell('accounts', 0, 0);
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER audit_added AFTER INSERT ON audit REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION audit_added();
-- An application is one as soon as it has a token, and none once its authorization has gone.
CREATE TRIGGER apps_begun AFTER INSERT ON tokens FOR EACH ROW WHEN (NEW.authorization_id IS NOT NULL) EXECUTE FUNCTION apps_changed();
CREATE TRIGGER apps_ended AFTER DELETE ON authorizations FOR EACH ROW EXECUTE FUNCTION apps_changed();
-- What operators see of accounts: they themselves, and how many users, databases and services they have.
CREATE TRIGGER accounts_counted AFTER INSERT OR DELETE ON accounts FOR EACH ROW EXECUTE FUNCTION accounts_changed();
CREATE TRIGGER accounts_changed AFTER UPDATE ON accounts FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION accounts_changed();
CREATE TRIGGER accounts_users AFTER INSERT OR DELETE ON users FOR EACH ROW EXECUTE FUNCTION accounts_changed();
CREATE TRIGGER accounts_services AFTER INSERT OR DELETE ON services FOR EACH ROW EXECUTE FUNCTION accounts_changed();
CREATE TRIGGER accounts_clusters AFTER INSERT OR DELETE ON clusters FOR EACH ROW EXECUTE FUNCTION accounts_changed();
CREATE TRIGGER accounts_sizes AFTER UPDATE ON clusters FOR EACH ROW
    WHEN ((OLD.type, OLD.size, OLD.deleted) IS DISTINCT FROM (NEW.type, NEW.size, NEW.deleted)) EXECUTE FUNCTION accounts_changed();

-- +goose Down
DROP TRIGGER accounts_sizes ON clusters;
DROP TRIGGER accounts_clusters ON clusters;
DROP TRIGGER accounts_services ON services;
DROP TRIGGER accounts_users ON users;
DROP TRIGGER accounts_changed ON accounts;
DROP TRIGGER accounts_counted ON accounts;
DROP TRIGGER apps_ended ON authorizations;
DROP TRIGGER apps_begun ON tokens;
DROP TRIGGER audit_added ON audit;
DROP FUNCTION accounts_changed, apps_changed, audit_added, changes_tell;
ALTER TABLE operations DROP COLUMN owner_id, DROP COLUMN entity_key;
