package enginetest

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"
)

// runAttempts runs the driver's table of attempts on one server. The order is
// the table's; what one leaves behind the next may meet, as in life.
func runAttempts(t *testing.T, b *Bench) {
	s, look := b.Started(t, Counting), func(*testing.T) {}
	if b.Options.Intact != nil {
		look = b.Options.Intact(t, s)
	}
	kept := keptSessions{}
	defer kept.close()
	for _, a := range b.Options.Attempts {
		if a.Only != nil && !a.Only(b.Installation) {
			continue
		}
		t.Run(a.Name, func(t *testing.T) {
			s.attempt(t, a, kept)
			look(t)
		})
	}
	t.Run("the server serves on", func(t *testing.T) {
		must(t, b.Driver.Ping(t.Context(), s.Node), "ping")
		must(t, b.Driver.VerifyRootPassword(t.Context(), s.Node), "verify root password")
		if s.reload(t) {
			t.Error("some attempt changed a setting that needs a restart")
		}
		s.Bootstrap(t)
		s.Restart(t)
		must(t, s.TryLogin(t, s.Login()), "login")
	})
}

// keptSessions are dbadmin's that were refused whatever they asked for, by their database: they are as good as new, and to log
// in is most of what an attempt costs.
type keptSessions map[string]*sql.DB

func (k keptSessions) close() {
	for _, db := range k {
		db.Close()
	}
	clear(k)
}

func (s *Server) attempt(t *testing.T, a Attempt, kept keptSessions) {
	l := s.Login()
	if a.Database != "" {
		l.Database = a.Database
	}
	db := kept[l.Database]
	if db == nil {
		var err error
		db, err = s.Bench.Options.Open(s.Node, l)
		must(t, err, "open handle")
		db.SetMaxOpenConns(1)
		kept[l.Database] = db
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var last error
	changed := false
	for _, q := range a.SQL {
		q = strings.ReplaceAll(q, "{{tmp}}", s.Node.Tmp)
		_, last = db.ExecContext(ctx, q)
		changed = changed || last == nil
		if a.Allowed && last != nil {
			t.Errorf("%s: %v", q, last)
		}
	}
	if changed {
		kept.close()
	}
	switch {
	case a.After != nil:
		a.After(t, s, last)
	case !a.Allowed:
		checkRefused(t, s.Bench, a, last)
	}
}

func checkRefused(t *testing.T, b *Bench, a Attempt, last error) {
	t.Helper()
	switch {
	case last == nil:
		t.Errorf("got away with %s", a.SQL[len(a.SQL)-1])
	case a.Refusal != "" && !strings.Contains(last.Error(), a.Refusal):
		t.Errorf("failed, but not for the reason %q: %v", a.Refusal, last)
	case a.Refusal == "" && b.Options.Refused != nil && !b.Options.Refused(last):
		t.Errorf("failed, but not for want of a privilege: %v", last)
	}
}
