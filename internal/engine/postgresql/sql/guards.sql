-- Run in template1 before any other database is made of it.

-- Customers have no business in the databases that new ones are copied from.
REVOKE ALL ON DATABASE template1 FROM PUBLIC;

REVOKE ALL ON DATABASE postgres FROM PUBLIC;
