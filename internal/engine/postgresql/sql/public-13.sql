-- Before 14 there is no role for "whoever owns the database", so dbadmin may
-- use `public` in each database, and nobody else may create there unasked.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;

GRANT USAGE, CREATE ON SCHEMA public TO dbadmin WITH GRANT OPTION;
