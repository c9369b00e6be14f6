// Package postgresql is the engine driver for PostgreSQL 13 and later.
//
// Who is who on a server of ours: `steward` is the superuser, logs in by the
// unix socket only and with a password; `dbadmin` is the customer's root, comes
// in by TCP only, and owns the database `defaultdb`. Every connection of ours
// pins its search path to the catalog while it starts (CVE-2026-55769), and
// passwords reach the server as SCRAM verifiers (CVE-2026-55765).
//
// Nodes of a cluster replicate their WAL, over unix sockets, as `steward`. There
// are no slots and there is no pg_rewind: what a killed primary had written last
// is copied from its files to its candidate before that is promoted, after which the
// old primary has nothing of its own and follows as it is.
package postgresql
