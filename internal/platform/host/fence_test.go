package host_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
)

// TestOlderDatabasesAreFencedIn: a database that an older steward made, running or
// suspended, has dbadmin hold no more than a new one's, whatever a new steward does first.
func TestOlderDatabasesAreFencedIn(t *testing.T) {
	t.Parallel()
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

	// The disk guard may have another steward take over its files before it looks at the database: that doesn't stand in for the fences.
	d.Close()
	s.loosen(t, want.Cluster)
	s.o.Engines[cluster.MySQL] = renamed{s.o.Engines[cluster.MySQL]}
	d = s.started(t)
	for _, on := range []bool{true, false} {
		if err := d.SetReadOnly(t.Context(), want, on); err != nil {
			t.Fatal(err)
		}
	}
	before := settle(t, d, want).Nodes[0].Pid
	if s.seesInnoDB(t, want.Cluster) {
		t.Error("dbadmin still holds PROCESS")
	}
	if after := settle(t, d, want).Nodes[0].Pid; after != before {
		t.Error("the server was restarted")
	}
}

// TestOlderDatabasesAreFencedInByAFailoverThorough: between an upgrade of steward and its first look at a running database, a failover
// may have it take over the new files. That doesn't stand in for the fences.
func TestOlderDatabasesAreFencedInByAFailoverThorough(t *testing.T) {
	t.Parallel()
	found := distributionOf(t, engine.FlavourMariaDB)
	h := newThreeNodes(t, found, benches(found)[0], modes(benches(found)[0])[0])
	await.True(t, "all nodes to be known as fenced", func() bool {
		known := 0
		for ordinal := range h.want.Size {
			content, err := os.ReadFile(filepath.Join(filepath.Dir(h.data(ordinal)), "node.json"))
			if err == nil && strings.Contains(string(content), `"fenced":`) {
				known++
			}
		}
		return known == h.want.Size
	})
	h.s.loosen(t, h.want.Cluster) // which the replicas take over, without being looked at
	h.agree(h.healthy())
	h.killed = map[int]bool{}
	h.signal(h.node(h.healthy(), cluster.Primary), syscall.SIGKILL)
	if after := h.healthy(); after.Failovers == 0 {
		t.Fatal("nobody took over")
	}
	await.True(t, "the new primary to be fenced", func() bool { return !h.s.seesInnoDB(t, h.want.Cluster) })
}

// loosen makes a database one of an older steward, whose record tells of no fences.
func (s *site) loosen(t *testing.T, c cluster.Cluster) {
	t.Helper()
	s.asSteward(t, c.ID, "GRANT PROCESS ON *.* TO 'dbadmin'@'%'")
	if !s.seesInnoDB(t, c) {
		t.Fatal("PROCESS shows nothing")
	}
	if c.Size > 1 {
		return
	}
	file := filepath.Join(s.node(c.ID), "node.json")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rec map[string]any
	if err := json.Unmarshal(content, &rec); err != nil {
		t.Fatal(err)
	}
	delete(rec, "fenced")
	if content, err = json.Marshal(rec); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
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
