package mysql_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/engine/mysql"
)

// backedUpBeside: what holds a lock that the copy needs makes it fail after a bounded wait; a long statement that
// holds none is no matter. Only MariaDB's copy is bounded so.
func backedUpBeside(t *testing.T, s *enginetest.Server) {
	d := mysql.New(slog.New(slog.NewTextHandler(t.Output(), nil)))
	d.SetCopyLockWait(time.Second)
	s.Exec(t, "CREATE TABLE plain (v int) ENGINE=Aria", "CREATE TABLE beside (v int)", "INSERT INTO plain VALUES (1)")
	for _, c := range []struct {
		name       string
		statements []string
		blocks     bool
	}{
		{"a statement that makes a table", []string{"CREATE TABLE slow ENGINE=Aria AS SELECT SLEEP(600)"}, true},
		{"a statement that is about to write", []string{"INSERT INTO plain SELECT SLEEP(600)"}, false},
		{"locked tables", []string{"LOCK TABLES beside WRITE, plain WRITE", "DO SLEEP(600)"}, true},
		{"an open transaction", []string{"BEGIN", "INSERT INTO beside VALUES (1)", "DO SLEEP(600)"}, false},
		{"a long query", []string{"SELECT SLEEP(600) FROM plain"}, false},
	} {
		t.Run(c.name, func(t *testing.T) { copiedBeside(t, d, s, c.statements, c.blocks) })
	}
	if err := d.Backup(t.Context(), s.Node, io.Discard, s.Pipe(t)); err != nil {
		t.Errorf("with nobody in the way: %v", err)
	}
}

// copiedBeside backs up while the statements run, the last of them for very long.
func copiedBeside(t *testing.T, d *mysql.Driver, s *enginetest.Server, statements []string, blocks bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	conn, err := s.DB(t, s.Login()).Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	running, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, q := range statements {
			conn.ExecContext(running, q)
		}
	}()
	const sleeping = "FROM information_schema.PROCESSLIST WHERE USER = 'dbadmin' AND STATE = 'User sleep'"
	await.True(t, "the statement runs", func() bool { return adminText(t, s, "SELECT COUNT(*) "+sleeping) == "1" })
	err = d.Backup(ctx, s.Node, io.Discard, s.Pipe(t))
	switch {
	case blocks && !errors.Is(err, engine.ErrBlocked):
		t.Errorf("backed up beside it: %v", err)
	case !blocks && err != nil:
		t.Errorf("kept from it: %v", err)
	}
	if adminText(t, s, "SELECT COUNT(*) "+sleeping) != "1" {
		t.Error("the statement was ended")
	}
	asAdmin(t, s).ExecContext(ctx, "KILL "+adminText(t, s, "SELECT ID "+sleeping))
	end()
	<-ended
	await.True(t, "the session is gone", func() bool { return adminText(t, s, "SELECT COUNT(*) "+sleeping) == "0" })
}
