package mysql

import (
	"context"

	"steward/internal/engine"
)

// dialect is what differs between the flavours.
type dialect struct {
	// server is the server program's name.
	server string
	// scripts are the installation's own SQL that makes the system tables, in order.
	scripts []string
	// initialise makes a template's data folder, running the SQL at its end.
	initialise func(ctx context.Context, inst engine.Installation, dir, accounts string, run engine.Runner) error
	// accounts is the SQL that makes our account and dbadmin, with gaps.
	accounts string
	// verifier is the clause of CREATE and ALTER USER that stands for a password.
	verifier func(password string) (string, error)
	// root are the statements that give dbadmin its privileges, each repeatable.
	root []string
	// settings are those beyond the common ones.
	settings func(n engine.Node, size tuning) []setting
	// encryption are the settings and files of an encrypted node.
	encryption func(n engine.Node) ([]setting, []engine.File)
	// encrypt encrypts what the template brought, and returns when it is.
	encrypt func(ctx context.Context, s *session) error
	// encryptionMissing is engine.Driver's.
	encryptionMissing func(inst engine.Installation) string
	// keyring is the file that the server keeps its keys in and writes itself.
	keyring func(n engine.Node) string
	// reloadTLS makes the server read its certificate again.
	reloadTLS string
	// upgrade are the scripts that bring the system tables up to a newly
	// started version, where the server doesn't do so itself.
	upgrade []string
	// replication is what differs in replication.
	replication replication
}

func dialectOf(f engine.Flavour) *dialect {
	if f == engine.FlavourMariaDB {
		return &mariaDB
	}
	return &oracleMySQL
}
