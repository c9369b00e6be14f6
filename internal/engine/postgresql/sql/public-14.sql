-- What 15 and later do by themselves.
ALTER SCHEMA public OWNER TO pg_database_owner;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
