-- Run in template1 before any other database is made of it.

-- Customers have no business in the databases that new ones are copied from.
REVOKE ALL ON DATABASE template1 FROM PUBLIC;

REVOKE ALL ON DATABASE postgres FROM PUBLIC;

-- Of what sessions say, the log has the errors of their statements and what ranks above,
-- which bounds of its own keep from filling the disk. Only superusers can change this.
ALTER ROLE ALL SET log_min_messages = 'error';
