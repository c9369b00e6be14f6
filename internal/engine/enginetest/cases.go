package enginetest

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/engine"
	"steward/internal/testdir"
)

// basicCases are what every installation must pass.
func basicCases() []Check {
	return []Check{
		{"a template made from nothing", templateFromNothing},
		{"ping of nothing says starting", pingOfNothing},
		{"one server", oneServer},
		{"bootstrap survives a kill at any time", bootstrapKilledAnyTime},
		{"encryption at rest", encryption},
		{"a meter tells a load by as much as it is", func(t *testing.T, b *Bench) { loadMeasured(t, b.Started(t, Counting)) }},
	}
}

// part is one of several that share what takes long to start. It meets what those before
// it left.
type part[T any] struct {
	name string
	run  func(t *testing.T, shared T)
}

// inTurn is a check of parts. After one that failed the others would prove nothing.
func inTurn[T any](start func(t *testing.T, b *Bench) T, parts []part[T]) func(t *testing.T, b *Bench) {
	return func(t *testing.T, b *Bench) {
		shared := start(t, b)
		for _, p := range parts {
			if !t.Run(p.name, func(t *testing.T) { p.run(t, shared) }) {
				return
			}
		}
	}
}

// oneServer is what a server does that is alone.
func oneServer(t *testing.T, b *Bench) {
	parts := serverParts()
	if b.other() {
		parts = slices.DeleteFunc(parts, func(p part[*Server]) bool { return !slices.Contains(otherParts, p.name) })
	}
	inTurn(func(t *testing.T, b *Bench) *Server {
		s := b.Server(t, Counting)
		s.Start(t)
		return s
	}, parts)(t, b)
}

// serverParts are of one server that has just been started.
func serverParts() []part[*Server] {
	return []part[*Server]{
		{"bootstrap survives a kill", bootstrapKilled},
		{"version", version},
		{"bootstrap is repeatable, committed rows survive kill -9", bootstrapRepeats},
		{"logins with TLS required", loginsTLSRequired},
		{"wrong admin password is told apart", wrongAdminPassword},
		{"a meter tells what is done", measured},
		{"exporters' families, and tables whatever their names", shown},
		{"tables that customers hold, and many of them, hide no others", heldTables},
		{"a meter gives up on a server that hangs", frozen},
		{"root password rotates", rotates},
		{"root password resets beside logins", resetBesideLogins},
		{"sessions of addresses end", sessionsEnd},
		{"sessions are seen", sessionsSeen},
		{"statements are counted", statementsCounted},
		{"statements are planned", statementsPlanned},
		{"statements that take long are logged", slowLogged},
		{"databases and users", logicalDatabases},
		{"reload of nothing new", reloadNothing},
		{"reload takes a new certificate", reloadCertificate},
		{"read-only guard", readOnly},
		{"reload takes ssl_connection", reloadSSLConnection},
		{"passwords are nowhere in the clear, as other text is", noClearPasswords},
		{"new plan reports whether to restart", reloadPlan}, // larger files take longer to search
	}
}

// templateFromNothing takes no template that was kept.
func templateFromNothing(t *testing.T, b *Bench) {
	fresh := NewBench(t, b.Driver, b.Installation, b.Options)
	fresh.template = filepath.Join(fresh.root, "template")
	ctx, cancel := context.WithTimeout(t.Context(), templateDeadline)
	defer cancel()
	must(t, fresh.makeTemplate(ctx, fresh.template), "make template")
	s := fresh.Started(t)
	must(t, s.TryLogin(t, s.Login()), "login")
}

func pingOfNothing(t *testing.T, b *Bench) {
	s := b.Server(t)
	if err := b.Driver.Ping(t.Context(), s.Node); !errors.Is(err, engine.ErrStarting) {
		t.Errorf("ping with no server: %v, want ErrStarting", err)
	}
}

// bootstrapRepeats has a server that was bootstrapped once.
func bootstrapRepeats(t *testing.T, s *Server) {
	s.Exec(t, "CREATE TABLE kept (v int)", "INSERT INTO kept VALUES (41)", "INSERT INTO kept VALUES (42)")
	s.Bootstrap(t)
	s.Kill(t)
	started := time.Now()
	s.Start(t)
	t.Logf("crash restart %v", time.Since(started).Round(time.Millisecond))
	s.Bootstrap(t)
	if got := s.Text(t, "SELECT count(*) FROM kept"); got != "2" {
		t.Errorf("%s rows after kill -9, want 2", got)
	}
	s.Exec(t, "DROP TABLE kept")
	must(t, s.TryLogin(t, s.Login()), "login after bootstrap")
	must(t, s.Bench.Driver.VerifyRootPassword(t.Context(), s.Node), "verify root password")
	// The template's password is common to all clusters: it must be dead.
	n := s.Node
	n.AdminPassword = templatePassword
	if err := s.Bench.Driver.SetReadOnly(t.Context(), n, false); err == nil {
		t.Error("the template's admin password still works after bootstrap")
	}
}

// killedAfter are how long after its beginning a bootstrap is killed.
var killedAfter = []time.Duration{0, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond}

// bootstrapKilled kills the server at some time of its first bootstrap.
func bootstrapKilled(t *testing.T, s *Server) {
	s.killInBootstrap(t, killedAfter[testdir.Rand(t, "how far a bootstrap comes").IntN(len(killedAfter))])
}

// bootstrapKilledAnyTime kills servers ever later into their first bootstrap.
func bootstrapKilledAnyTime(t *testing.T, b *Bench) {
	for _, after := range killedAfter {
		s := b.Server(t)
		s.Start(t)
		s.killInBootstrap(t, after)
		s.Kill(t)
	}
}

// killInBootstrap kills the fresh server so long into its bootstrap, and has it started and bootstrapped again.
func (s *Server) killInBootstrap(t *testing.T, after time.Duration) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Bench.Driver.Bootstrap(context.WithoutCancel(t.Context()), s.Node) }()
	time.Sleep(after) // the moment of the kill, which no condition tells: any is to be survived
	s.Kill(t)
	<-done
	s.Start(t)
	s.Bootstrap(t)
	must(t, s.TryLogin(t, s.Login()), "login after a killed bootstrap")
}

// stopsBesideClient stops the server cleanly while a client is connected.
func (s *Server) stopsBesideClient(t *testing.T) {
	t.Helper()
	client := s.DB(t, s.Login())
	must(t, client.PingContext(t.Context()), "connect a client")
	started := time.Now()
	s.Stop(t)
	if took := time.Since(started); took > 15*time.Second {
		t.Errorf("clean stop took %v", took)
	}
}

func version(t *testing.T, s *Server) {
	got, err := s.Bench.Driver.Version(t.Context(), s.Node)
	must(t, err, "version")
	if got != s.Bench.Installation.Version {
		t.Errorf("server says %q, discovery said %q", got, s.Bench.Installation.Version)
	}
}

func loginsTLSRequired(t *testing.T, s *Server) {
	must(t, s.TryLogin(t, s.Login()), "login over verified TLS")
	for name, change := range map[string]func(*Login){
		"wrong password":  func(l *Login) { l.Password = "wrong" },
		"no password":     func(l *Login) { l.Password = "" },
		"without TLS":     func(l *Login) { l.CA = nil },
		"unknown user":    func(l *Login) { l.User = "nobody" },
		"our own account": func(l *Login) { l.User, l.Password = "steward", s.Node.AdminPassword },
		"our own account, template's password": func(l *Login) {
			l.User, l.Password = "steward", templatePassword
		},
	} {
		l := s.Login()
		change(&l)
		if err := s.TryLogin(t, l); err == nil {
			t.Errorf("login with %s is let in over TCP", name)
		}
	}
	must(t, s.Bench.Driver.VerifyRootPassword(t.Context(), s.Node), "verify root password")
	n := s.Node
	n.RootPassword = "wrong"
	if err := s.Bench.Driver.VerifyRootPassword(t.Context(), n); !errors.Is(err, engine.ErrAuthentication) {
		t.Errorf("verify of a wrong root password: %v, want ErrAuthentication", err)
	}
}

func wrongAdminPassword(t *testing.T, s *Server) {
	n := s.Node
	n.AdminPassword, n.TemplatePassword = "wrong", "wrong too"
	if err := s.Bench.Driver.Ping(t.Context(), n); !errors.Is(err, engine.ErrAuthentication) {
		t.Errorf("ping: %v, want ErrAuthentication", err)
	}
	if err := s.Bench.Driver.Bootstrap(t.Context(), n); !errors.Is(err, engine.ErrAuthentication) {
		t.Errorf("bootstrap: %v, want ErrAuthentication", err)
	}
}

func rotates(t *testing.T, s *Server) {
	open := s.DB(t, s.Login())
	must(t, open.PingContext(t.Context()), "open a session")
	old := s.Login()
	// Quotes and backslashes must be harmless, though ours never have any.
	for _, password := range []string{"new-9Bv3Kd7Qw", `it's "quoted" \ and $$ too`} {
		s.Node.RootPassword = password
		for range 2 {
			must(t, s.Bench.Driver.SetRootPassword(t.Context(), s.Node), "set root password")
		}
		if err := s.TryLogin(t, old); err == nil {
			t.Error("the old password still works")
		}
		must(t, s.TryLogin(t, s.Login()), "login with the new password")
		must(t, s.Bench.Driver.VerifyRootPassword(t.Context(), s.Node), "verify new password")
		old = s.Login()
	}
	// With it, whoever knew the old password could set another.
	await.NoError(t, "a session opened with an old password ends", func() error {
		if open.PingContext(t.Context()) == nil {
			return errors.New("it lives on")
		}
		return nil
	})
}

func reloadNothing(t *testing.T, s *Server) {
	if s.reload(t) {
		t.Error("reload of the same files asks for a restart")
	}
}

func reloadCertificate(t *testing.T, s *Server) {
	old := s.Login()
	s.NewCertificates(t)
	if s.reload(t) {
		t.Error("a new certificate asks for a restart")
	}
	await.NoError(t, "new certificate is served", func() error { return s.TryLogin(t, s.Login()) })
	if err := s.TryLogin(t, old); err == nil {
		t.Error("the old CA still verifies the server")
	}
}

func reloadSSLConnection(t *testing.T, s *Server) {
	plain := s.Login()
	plain.CA = nil
	require := func(required bool) {
		s.Node.SSLConnection = required
		if s.reload(t) {
			s.Restart(t)
		}
	}
	require(false)
	await.NoError(t, "a plain login is let in", func() error { return s.TryLogin(t, plain) })
	must(t, s.TryLogin(t, s.Login()), "login over verified TLS where it isn't required")
	wrong := plain
	wrong.Password = "wrong"
	if err := s.TryLogin(t, wrong); err == nil {
		t.Error("wrong password is let in without TLS")
	}
	require(true)
	await.NoError(t, "a plain login is refused", func() error {
		if s.TryLogin(t, plain) == nil {
			return errors.New("plain login is let in")
		}
		return nil
	})
}

// reloadPlan moves to a bigger plan, reloading and restarting as told; after
// that nothing may be left to do.
func reloadPlan(t *testing.T, s *Server) {
	s.Exec(t, "CREATE TABLE planned (v int)")
	s.Node.Plan.MemoryMB, s.Node.Plan.VCPUs, s.Node.Plan.DiskMB = 4096, 2, 81920
	if s.reload(t) {
		s.Restart(t)
	}
	if s.reload(t) {
		t.Error("a restart is asked for right after a restart")
	}
	if got := s.Text(t, "SELECT count(*) FROM planned"); got != "0" {
		t.Errorf("count is %s, want 0", got)
	}
}

func readOnly(t *testing.T, s *Server) {
	s.Exec(t, "CREATE TABLE kept (v int)", "INSERT INTO kept VALUES (1)")
	writer := s.DB(t, s.Login())
	tx, err := writer.BeginTx(t.Context(), nil)
	must(t, err, "begin")
	_, err = tx.ExecContext(t.Context(), "INSERT INTO kept VALUES (2)")
	must(t, err, "insert")

	s.setReadOnly(t, true)
	if err := tx.Commit(); err == nil {
		t.Error("a transaction begun before the guard commits under it")
	}
	s.wantReadOnly(t)
	// It holds over a restart when the files say so.
	s.Restart(t)
	s.wantReadOnly(t)
	s.Bootstrap(t)
	s.wantReadOnly(t)

	s.setReadOnly(t, false)
	s.Exec(t, "INSERT INTO kept VALUES (3)")
	if got := s.Text(t, "SELECT count(*) FROM kept"); got != "2" {
		t.Errorf("%s rows, want 2", got)
	}
}

// setReadOnly does what the platform does: files first, then the running server.
func (s *Server) setReadOnly(t *testing.T, on bool) {
	t.Helper()
	s.Node.ReadOnly = on
	s.WriteFiles(t)
	for range 2 {
		must(t, s.Bench.Driver.SetReadOnly(t.Context(), s.Node, on), "set read-only")
	}
}

// wantReadOnly tries writes, and tries to talk the server out of refusing them.
func (s *Server) wantReadOnly(t *testing.T) {
	t.Helper()
	db := s.DB(t, s.Login())
	defer db.Close()
	var n int
	must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM kept").Scan(&n), "read under the guard")
	for _, q := range []string{"INSERT INTO kept VALUES (9)", "CREATE TABLE more (v int)"} {
		if _, err := db.ExecContext(t.Context(), q); err == nil {
			t.Errorf("%s works under the guard", q)
		}
	}
}

func (s *Server) reload(t *testing.T) (restart bool) {
	t.Helper()
	s.WriteFiles(t)
	restart, err := s.Bench.Driver.Reload(t.Context(), s.Node)
	must(t, err, "reload")
	return restart
}

// runPatches starts each series' oldest data with its newest binary, per builder.
func runPatches(t *testing.T, driver engine.Driver, found []engine.Installation, o Options) {
	type line struct {
		flavour         engine.Flavour
		series, builder string
	}
	lines := map[line][]engine.Installation{}
	for _, inst := range found {
		l := line{inst.Flavour, inst.Series, inst.Builder}
		lines[l] = append(lines[l], inst)
	}
	for _, insts := range lines {
		if len(insts) < 2 {
			continue
		}
		slices.SortFunc(insts, func(a, b engine.Installation) int { return engine.CompareVersions(a.Version, b.Version) })
		from, to := insts[0], insts[len(insts)-1]
		NewBench(t, driver, from, o).Case(t, from.ID()+" to "+to.Version, func(t *testing.T, b *Bench) { patch(t, b, to) })
	}
}

func patch(t *testing.T, b *Bench, to engine.Installation) {
	s := b.Started(t)
	s.Exec(t, "CREATE TABLE kept (v int)", "INSERT INTO kept VALUES (7)")
	s.Stop(t)
	s.Node.Installation = to
	s.WriteFiles(t)
	s.Start(t)
	s.Bootstrap(t)
	for range 2 {
		must(t, b.Driver.AfterPatch(t.Context(), s.Node), "after patch")
	}
	got, err := b.Driver.Version(t.Context(), s.Node)
	must(t, err, "version")
	if got != to.Version {
		t.Errorf("server says %q, want %q", got, to.Version)
	}
	if got := s.Text(t, "SELECT v FROM kept"); got != "7" {
		t.Errorf("row says %s, want 7", got)
	}
	s.Restart(t)
}
