// Package pgbouncer knows PgBouncer, the program that shares a few connections to a PostgreSQL server among many
// clients: which one is installed and what it can do, its files, and its console.
//
// What follows from how it works:
//
//   - The [Config] names one pool a line. A name that PostgreSQL takes and a line can't have (with a line break) is refused
//     before it comes here.
//   - Clients prove their password by SCRAM against the verifiers in [Users], with which PgBouncer then logs in to
//     the server (pass-through): no password is in any file. So it must know the verifiers that the server has; a server that has
//     another refuses it.
//   - Who reaches the console can pause and end everything: it is for our own account, by the unix socket, alone. hba.conf says so before
//     the name of any database or user is looked at.
package pgbouncer
