package postgresql

import (
	"strings"
	"syscall"

	"steward/internal/engine"
)

// Names on every server.
const (
	adminRole     = "steward"
	customerRole  = "dbadmin"
	adminDatabase = "postgres"
	firstDatabase = "defaultdb"
)

// Driver is the engine.Driver for PostgreSQL. It holds nothing and may be copied.
type Driver struct{}

var _ engine.Driver = Driver{}

// New makes the driver.
func New() Driver { return Driver{} }

// StopSignal is PostgreSQL's fast shutdown: sessions end, a checkpoint is written.
func (Driver) StopSignal() syscall.Signal { return syscall.SIGINT }

// StopsChild implements engine.Driver. pg_partman's workers (4.7) note only that they should end: one goes on with its maintenance, however
// long that takes, and their master may then wait for its next round, an hour or a week. SIGINT cancels both.
func (Driver) StopsChild(title string) syscall.Signal {
	if strings.Contains(title, ": pg_partman ") {
		return syscall.SIGINT
	}
	return 0
}

// TellsOfStop implements engine.Driver: a session's last words are the same, whoever ends it (57P01).
func (Driver) TellsOfStop() bool { return true }

// KeyringContent is nil: there is no keyring.
func (Driver) KeyringContent(engine.Node) ([]byte, error) { return nil, nil }

// EncryptionMissing says that PostgreSQL itself doesn't encrypt its files.
func (Driver) EncryptionMissing(engine.Installation) string {
	return "PostgreSQL can't encrypt its data files by itself, and this server has no encrypted file system to put them on."
}
