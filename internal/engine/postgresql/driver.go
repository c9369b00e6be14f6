package postgresql

import (
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

// TellsOfStop implements engine.Driver: a session's last words are the same, whoever ends it (57P01).
func (Driver) TellsOfStop() bool { return true }

// KeyringContent is nil: there is no keyring.
func (Driver) KeyringContent(engine.Node) ([]byte, error) { return nil, nil }

// EncryptionMissing says that PostgreSQL itself doesn't encrypt its files.
func (Driver) EncryptionMissing(engine.Installation) string {
	return "PostgreSQL can't encrypt its data files by itself, and this server has no encrypted file system to put them on."
}
