-- User management for servers before 16, whose CREATEROLE reaches
-- pg_execute_server_program and with it a shell. Each procedure runs as our
-- superuser, so each one: pins its search path, quotes what it is given,
-- touches only roles that create_user made, and can be called by dbadmin alone.
CREATE SCHEMA steward;

GRANT USAGE ON SCHEMA steward TO dbadmin;

-- A role is the customer's when it bears this comment, which only superusers
-- can write.
CREATE FUNCTION steward.is_customers(username text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
  SELECT EXISTS (
    SELECT FROM pg_catalog.pg_roles r
    WHERE r.rolname = username AND NOT r.rolsuper
      AND pg_catalog.shobj_description(r.oid, 'pg_authid') = 'made by steward.create_user')
$$;

CREATE FUNCTION steward.demand_customers(username text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT coalesce(steward.is_customers(username), false) THEN
    RAISE EXCEPTION '% is not a user made by steward.create_user', coalesce(quote_ident(username), 'NULL')
      USING ERRCODE = 'insufficient_privilege';
  END IF;
END
$$;

CREATE FUNCTION steward.demand_database(database text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT EXISTS (
    SELECT FROM pg_catalog.pg_database d JOIN pg_catalog.pg_roles o ON o.oid = d.datdba
    WHERE d.datname = database AND (o.rolname = 'dbadmin' OR steward.is_customers(o.rolname::text)))
  THEN
    RAISE EXCEPTION '% is not a database of yours', coalesce(quote_ident(database), 'NULL')
      USING ERRCODE = 'insufficient_privilege';
  END IF;
END
$$;

CREATE FUNCTION steward.demand_password(password text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF coalesce(password, '') = '' THEN
    RAISE EXCEPTION 'a password is required' USING ERRCODE = 'invalid_parameter_value';
  END IF;
END
$$;

CREATE PROCEDURE steward.create_user(username text, password text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET password_encryption = 'scram-sha-256'
AS $$
BEGIN
  IF coalesce(username, '') = '' OR octet_length(username) > 63 THEN
    RAISE EXCEPTION 'a user name has 1 to 63 bytes' USING ERRCODE = 'invalid_name';
  END IF;
  IF lower(username) ~ '^(pg_|steward|postgres$|dbadmin$|public$|none$|replication$|all$)' THEN
    RAISE EXCEPTION 'the name % is reserved', quote_ident(username) USING ERRCODE = 'reserved_name';
  END IF;
  PERFORM steward.demand_password(password);
  IF EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = username) THEN
    RAISE EXCEPTION 'the user % exists', quote_ident(username) USING ERRCODE = 'duplicate_object';
  END IF;
  EXECUTE format('CREATE ROLE %I LOGIN PASSWORD %L ROLE dbadmin', username, password);
  EXECUTE format('COMMENT ON ROLE %I IS %L', username, 'made by steward.create_user');
END
$$;

COMMENT ON PROCEDURE steward.create_user(text, text) IS
  'Makes a user. dbadmin is a member of it, so it can use and drop what the user owns.';

CREATE PROCEDURE steward.set_password(username text, password text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET password_encryption = 'scram-sha-256'
AS $$
BEGIN
  PERFORM steward.demand_customers(username);
  PERFORM steward.demand_password(password);
  EXECUTE format('ALTER ROLE %I PASSWORD %L', username, password);
END
$$;

COMMENT ON PROCEDURE steward.set_password(text, text) IS
  'Gives a user made by create_user a new password.';

CREATE PROCEDURE steward.grant_database(username text, database text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM steward.demand_customers(username);
  PERFORM steward.demand_database(database);
  EXECUTE format('GRANT CONNECT, CREATE, TEMPORARY ON DATABASE %I TO %I', database, username);
END
$$;

COMMENT ON PROCEDURE steward.grant_database(text, text) IS
  'Lets a user connect to a database and create schemas and temporary tables there.';

CREATE PROCEDURE steward.revoke_database(username text, database text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM steward.demand_customers(username);
  PERFORM steward.demand_database(database);
  EXECUTE format('REVOKE ALL ON DATABASE %I FROM %I', database, username);
  EXECUTE format('REVOKE CONNECT, TEMPORARY ON DATABASE %I FROM PUBLIC', database);
END
$$;

COMMENT ON PROCEDURE steward.revoke_database(text, text) IS
  'Takes back what grant_database gave, and what everybody has on a database by default.';

CREATE PROCEDURE steward.drop_user(username text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  database text;
BEGIN
  PERFORM steward.demand_customers(username);
  FOR database IN
    SELECT d.datname FROM pg_catalog.pg_database d, LATERAL pg_catalog.aclexplode(d.datacl) a
    WHERE a.grantee = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = username)
  LOOP
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM %I', database, username);
  END LOOP;
  EXECUTE format('DROP ROLE %I', username);
  PERFORM pg_catalog.pg_terminate_backend(s.pid) FROM pg_catalog.pg_stat_activity s WHERE s.usename = username;
END
$$;

COMMENT ON PROCEDURE steward.drop_user(text) IS
  'Drops a user made by create_user and ends its sessions. What it owns must go or change hands first: REASSIGN OWNED, DROP OWNED.';

-- Functions and procedures are everybody's unless said otherwise.
REVOKE ALL ON ALL ROUTINES IN SCHEMA steward FROM PUBLIC;

GRANT EXECUTE ON PROCEDURE
  steward.create_user(text, text), steward.set_password(text, text), steward.drop_user(text),
  steward.grant_database(text, text), steward.revoke_database(text, text)
TO dbadmin;
