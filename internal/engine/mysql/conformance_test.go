package mysql_test

import (
	"crypto/tls"
	"database/sql"
	"log/slog"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/engine/mysql"
)

func TestConformance(t *testing.T) {
	enginetest.Run(t, mysql.New(slog.New(slog.NewTextHandler(t.Output(), nil))), enginetest.Options{Open: open})
}

func open(n engine.Node, l enginetest.Login) (*sql.DB, error) {
	cfg := driver.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = l.User, l.Password, l.Database
	cfg.Net, cfg.Addr = "tcp", n.Listen.String()
	cfg.Logger = &driver.NopLogger{}
	if l.CA != nil {
		cfg.TLS = &tls.Config{RootCAs: l.CA, ServerName: n.Listen.Addr().String(), MinVersion: tls.VersionTLS12}
	}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
