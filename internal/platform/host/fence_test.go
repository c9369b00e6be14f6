package host_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
)

// TestOlderDatabasesAreFencedIn: a database that an older steward made, running or
// suspended, has dbadmin hold no more than a new one's.
func TestOlderDatabasesAreFencedIn(t *testing.T) {
	s := newSite(t, distributionOf(t, engine.FlavourMariaDB))
	d := s.started(t)
	want := s.wanted(t, 1)
	want.Engine = cluster.MySQL
	settle(t, d, want)
	loosen := func() {
		t.Helper()
		s.asSteward(t, want.ID, "GRANT PROCESS ON *.* TO 'dbadmin'@'%'")
		if !s.seesInnoDB(t, want.Cluster) {
			t.Fatal("PROCESS shows nothing")
		}
	}
	loosen()
	d.Close()
	s.o.Engines[cluster.MySQL] = renamed{s.o.Engines[cluster.MySQL]}
	d = s.started(t)
	settle(t, d, want)
	if s.seesInnoDB(t, want.Cluster) {
		t.Error("a running database's dbadmin still holds PROCESS")
	}
	loosen()
	want.Suspended = true
	settle(t, d, want)
	want.Suspended = false
	settle(t, d, want)
	if s.seesInnoDB(t, want.Cluster) {
		t.Error("a suspended database's dbadmin still holds PROCESS when it is resumed")
	}
}

// asSteward runs a statement as our own account.
func (s *site) asSteward(t *testing.T, id cluster.ID, statement string) {
	t.Helper()
	config := mysql.NewConfig()
	config.User, config.Passwd, config.Net = "steward", s.secrets.Text(id, platform.AdminPassword), "unix"
	config.Addr = filepath.Join(s.o.RunDir, fmt.Sprintf("%d-0", id), "mysql.sock")
	if err := query(t.Context(), config, statement); err != nil {
		t.Fatal(err)
	}
}

// seesInnoDB reports whether dbadmin may see what all sessions do.
func (s *site) seesInnoDB(t *testing.T, c cluster.Cluster) bool {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.secrets.Text(c.ID, platform.CACert)))
	config := mysql.NewConfig()
	config.User, config.Passwd, config.Net = "dbadmin", s.secrets.Text(c.ID, platform.RootPassword), "tcp"
	config.Addr = netip.AddrPortFrom(s.o.PrimaryAddress, uint16(c.Port)).String()
	config.TLS = &tls.Config{RootCAs: roots, ServerName: s.o.PrimaryAddress.String()}
	err := query(t.Context(), config, "SHOW ENGINE INNODB STATUS")
	var refusal *mysql.MySQLError
	if err != nil && !errors.As(err, &refusal) {
		t.Fatal(err)
	}
	return err == nil
}

func query(ctx context.Context, config *mysql.Config, statement string) error {
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}
