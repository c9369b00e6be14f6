package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"steward/internal/await"
	"steward/internal/engine/enginetest"
)

// outnumbered has many users of a customer's take every connection there is, and
// want it back when they lose it: whatever we have to do works nevertheless.
func outnumbered(t *testing.T, s *enginetest.Server) {
	b := s.Bench
	s.Exec(t, "CREATE TABLE kept (v int)", "INSERT INTO kept VALUES (1)")
	c := squatting(t, s)
	await.True(t, "all connections are taken", c.full.Load)
	t.Cleanup(c.leave)
	node := s.Node
	node.RootPassword = "rotated-3kLw8Vn2Qd7"
	for _, do := range []struct {
		name string
		what func() error
	}{
		{"ping", func() error { return b.Driver.Ping(t.Context(), node) }},
		{"reset", func() error { return b.Driver.SetRootPassword(t.Context(), node) }},
		{"log in with the new password", func() error { return b.Driver.VerifyRootPassword(t.Context(), node) }},
		{"health", func() error { _, err := b.Driver.ReplicationStatus(t.Context(), node); return err }},
		{"fence", func() error { return b.Driver.Fence(t.Context(), node) }},
		{"reload", func() error { _, err := b.Driver.Reload(t.Context(), node); return err }},
		{"step down", func() error { return b.Driver.StepDown(t.Context(), node) }},
		{"promote", func() error { return b.Driver.Promote(t.Context(), node) }},
		{"copy", func() error { return copiedSoon(t, b, s) }},
	} {
		started := time.Now()
		if err := do.what(); err != nil {
			t.Errorf("%s: %v", do.name, err)
		}
		if took := time.Since(started); took > time.Minute {
			t.Errorf("%s took %v", do.name, took)
		}
	}
	c.leave()
	// Those who leave are gone a moment later than they think.
	await.NoError(t, "a user may have all connections but 16 when there is plenty again", func() error {
		if err := b.Driver.Ping(t.Context(), s.Node); err != nil {
			return err
		}
		if got := adminText(t, s, "SELECT @@GLOBAL.max_connections - @@GLOBAL.max_user_connections"); got != "16" {
			return fmt.Errorf("all but %s", got)
		}
		return nil
	})
	s.Stop(t)
}

// copiedSoon tries again as the platform does: the program that copies opens several
// connections, one after the other.
func copiedSoon(t *testing.T, b *enginetest.Bench, s *enginetest.Server) error {
	for began := time.Now(); ; {
		err := copied(t, b, s)
		if err == nil || time.Since(began) > 30*time.Second || !strings.Contains(err.Error(), "Too many connections") {
			return err
		}
	}
}

// copied makes a copy of the running server's data, as for a replica.
func copied(t *testing.T, b *enginetest.Bench, s *enginetest.Server) error {
	dir := filepath.Join(s.Node.Tmp, "copy")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(s.Node.Tmp)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
		return err
	}
	return b.Driver.BaseBackup(t.Context(), s.Node, dir, runAs(owner))
}

// squatters hold connections and want them back. full is set when one was refused
// because there are too many.
type squatters struct {
	full  atomic.Bool
	leave func()
}

// squatting is done by users none of whom has too many connections.
func squatting(t *testing.T, s *enginetest.Server) *squatters {
	t.Helper()
	const users, each = 3, 45
	var logins []enginetest.Login
	for i := range users {
		l := enginetest.Login{User: fmt.Sprintf("app%d", i), Password: "app-Password-7"}
		if onlyMariaDB(s.Bench) {
			s.Exec(t, fmt.Sprintf("CALL steward.create_user('%s', '%s')", l.User, l.Password))
		} else {
			s.Exec(t, fmt.Sprintf("CREATE USER '%s' IDENTIFIED BY '%s'", l.User, l.Password))
		}
		logins = append(logins, l)
	}
	ctx, stop := context.WithCancel(t.Context())
	c := &squatters{}
	var wg sync.WaitGroup
	for i := range users * each {
		wg.Go(func() {
			for ctx.Err() == nil {
				c.squat(ctx, s, logins[i%users])
				rest(ctx, 300*time.Millisecond)
			}
		})
	}
	c.leave = func() { stop(); wg.Wait() }
	return c
}

// squat stays for as long as it may.
func (c *squatters) squat(ctx context.Context, s *enginetest.Server, l enginetest.Login) {
	db, err := open(s.Node, l)
	if err != nil {
		return
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		var refusal *driver.MySQLError
		if errors.As(err, &refusal) && refusal.Number == 1040 {
			c.full.Store(true)
		}
		return
	}
	defer conn.Close()
	for ctx.Err() == nil && conn.PingContext(ctx) == nil {
		rest(ctx, 200*time.Millisecond)
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
