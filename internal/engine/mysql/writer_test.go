package mysql_test

import (
	"errors"
	"strings"
	"testing"

	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/engine/mysql"
	"steward/internal/logical"
)

// droppedWriter: who wrote what a source sent into a logical database goes with it, and nobody else's does.
func droppedWriter(t *testing.T, s *enginetest.Server) {
	d := s.Bench.Driver.(*mysql.Driver)
	inside := d.Logical(s.Node)
	there := map[string]func() (string, error){}
	for name, slot := range map[string]string{"a_b": "steward_0123456789abcdef", "axb": "steward_fedcba9876543210"} {
		if err := inside.CreateDatabase(t.Context(), logical.Database{Name: name}); err != nil {
			t.Fatal(err)
		}
		var err error
		if there[name], err = d.MakeWriter(t.Context(), s.Node, name, slot); err != nil {
			t.Fatal(err)
		}
	}
	if err := inside.DropDatabase(t.Context(), "a_b"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a_b": "0", "axb": "1"} {
		if n, err := there[name](); err != nil || n != want {
			t.Errorf("%s has %s accounts that write, want %s, %v", name, n, want, err)
		}
	}
}

// writerRights: who writes what a source sends can do so in one database, and not where nobody may write; dbadmin can't write by BINLOG.
func writerRights(t *testing.T, s *enginetest.Server) {
	d := s.Bench.Driver.(*mysql.Driver)
	const slot, noted = "steward_0123456789abcdef", "CREATE TABLE %.steward_follow (slot VARCHAR(64) PRIMARY KEY, file VARCHAR(255), at BIGINT, noted DATETIME(6))"
	for _, name := range []string{"shop", "other"} {
		if err := d.Logical(s.Node).CreateDatabase(t.Context(), logical.Database{Name: name}); err != nil {
			t.Fatal(err)
		}
		s.Exec(t, strings.ReplaceAll(noted, "%", name), "INSERT INTO "+name+".steward_follow VALUES ('"+slot+"', 'log.000001', 4, NOW())")
	}
	if err := d.Write(t.Context(), s.Node, "shop", slot); err != nil {
		t.Errorf("into its own database: %v", err)
	}
	if at := s.Text(t, "SELECT at FROM shop.steward_follow"); at != "5" {
		t.Errorf("it is noted that it is at %s", at)
	}
	s.Node.ReadOnly = true
	if err := d.SetReadOnly(t.Context(), s.Node, true); err != nil {
		t.Fatal(err)
	}
	if theirs, ok := errors.AsType[*engine.SourceError](d.Write(t.Context(), s.Node, "shop", slot)); !ok || !theirs.Passing || !strings.Contains(theirs.Reason, "no room") {
		t.Errorf("where nobody may write it says %v", theirs)
	}
	s.Node.ReadOnly = false
	if err := d.SetReadOnly(t.Context(), s.Node, false); err != nil {
		t.Fatal(err)
	}
	there, err := d.MakeWriter(t.Context(), s.Node, "shop", slot)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.DropWriter(t.Context(), s.Node, slot); err != nil {
		t.Error(err)
	}
	if n, err := there(); err != nil || n != "0" {
		t.Errorf("%s accounts that write are left, %v", n, err)
	}
	if _, err := s.DB(t, s.Login()).ExecContext(t.Context(), "BINLOG 'AAAA'"); err == nil || !strings.Contains(err.Error(), "denied") {
		t.Errorf("dbadmin writes by BINLOG: %v", err)
	}
}
