package postgresql

import (
	"crypto/tls"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"steward/internal/engine"
	"steward/internal/engine/enginetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, New(), options())
}

// TestConformanceThorough tries what TestConformance leaves.
func TestConformanceThorough(t *testing.T) {
	t.Parallel()
	enginetest.RunThorough(t, New(), options())
}

func options() enginetest.Options {
	return enginetest.Options{
		Open: open, Attempts: attempts(), Refused: refused, Intact: intact, Checks: slices.Concat(checks(), lockoutChecks(), replicationChecks()),
	}
}

// open is how a customer logs in.
func open(n engine.Node, l enginetest.Login) (*sql.DB, error) {
	config, err := pgx.ParseConfig("host=" + n.Listen.Addr().String() + " sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.Port, config.User, config.Password, config.Database = n.Listen.Port(), l.User, l.Password, l.Database
	config.RuntimeParams, config.Fallbacks = nil, nil
	config.ConnectTimeout = 10 * time.Second
	if l.CA != nil {
		config.TLSConfig = &tls.Config{RootCAs: l.CA, ServerName: n.Listen.Addr().String()}
	}
	return stdlib.OpenDB(*config), nil
}
