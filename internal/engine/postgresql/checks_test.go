package postgresql

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
)

func checks() []enginetest.Check {
	return []enginetest.Check{
		enginetest.Sharing("what a server of ours promises",
			enginetest.Part{Name: "data is set up as promised", Run: setUpAsPromised},
			enginetest.Part{Name: "a flush leaves little for a stop to write", Run: flushed},
			enginetest.Part{Name: "reload tells of files the server refuses", Run: reloadRefused},
			enginetest.Part{Name: "the guard lets readers be and sessions lift it", Run: guardIsGentle},
			enginetest.Part{Name: "replication is refused to customers", Run: replicationRefused},
			enginetest.Part{Name: "customers can't end our sessions", Run: cantEndOurs},
			enginetest.Part{Name: "the socket wants a password", Run: socketWantsPassword},
			enginetest.Part{Name: "a hung server is noticed", Run: hungServer},
			enginetest.Part{Name: "users in plain SQL from 16 on", Run: plainUsers},
			enginetest.Part{Name: "customers can't fill the log", Run: cantFillLog},
			enginetest.Part{Name: "passwords stay out of the log", Run: passwordsStayOut},
			enginetest.Part{Name: "verify tells a dropped database from a wrong password", Run: verifyWithoutDatabase},
			enginetest.Part{Name: "clones have identities of their own", Run: clonesHaveIdentities},
			enginetest.Part{Name: "a used data folder keeps its identity", Run: usedFolderKeepsIdentity},
		),
		{Name: "every plan starts", Run: everyPlanStarts},
	}
}

func one(t *testing.T, s *enginetest.Server, sql string) string {
	t.Helper()
	row, err := askOne(t.Context(), s.Node, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return row[0]
}

func flushed(t *testing.T, s *enginetest.Server) {
	s.Exec(t, "CREATE TABLE flushed AS SELECT generate_series(1, 50000) v")
	const large = "SELECT pg_current_wal_insert_lsn() - redo_lsn > 1e6 FROM pg_control_checkpoint()"
	if got := one(t, s, large); got != "t" {
		t.Fatal("there is nothing to write")
	}
	if err := s.Bench.Driver.PrepareStop(t.Context(), s.Node); err != nil {
		t.Fatal(err)
	}
	if got := one(t, s, large); got != "f" {
		t.Error("the last checkpoint is far behind")
	}
	s.Exec(t, "DROP TABLE flushed")
}

// clonesHaveIdentities compares a server with a clone that was never started.
func clonesHaveIdentities(t *testing.T, s *enginetest.Server) {
	ours, clones := identityOf(t, s), identityOf(t, s.Bench.Server(t))
	if ours.id == clones.id {
		t.Error("two clones share a system identifier")
	}
	if ours.secret == clones.secret {
		t.Error("two clones share the nonce of mock authentication")
	}
	const id = "SELECT system_identifier FROM pg_control_system()"
	before := one(t, s, id)
	if want := strconv.FormatUint(binary.LittleEndian.Uint64(ours.id[:]), 10); before != want {
		t.Errorf("the server says that it is %s, its file says %s", before, want)
	}
	// It still runs after a crash, when WAL is read again.
	s.Exec(t, "CREATE TABLE identified (v int)")
	s.Kill(t)
	s.Start(t)
	if after := one(t, s, id); after != before {
		t.Errorf("identifier changed from %s to %s", before, after)
	}
}

func identityOf(t *testing.T, s *enginetest.Server) identity {
	t.Helper()
	control, err := readControl(filepath.Join(s.Node.Data, Driver{}.ControlFile()))
	if err != nil {
		t.Fatal(err)
	}
	return control.identity()
}

func usedFolderKeepsIdentity(t *testing.T, s *enginetest.Server) {
	if err := s.Bench.Driver.RegenerateIdentity(t.Context(), s.Node.Data); err == nil {
		t.Error("the folder of a running server was changed")
	}
	s.Kill(t)
	if err := s.Bench.Driver.RegenerateIdentity(t.Context(), s.Node.Data); err == nil {
		t.Error("the folder of a crashed server was changed")
	}
	if err := os.Remove(filepath.Join(s.Node.Data, "postmaster.pid")); err != nil {
		t.Fatal(err)
	}
	if err := s.Bench.Driver.RegenerateIdentity(t.Context(), s.Node.Data); err == nil {
		t.Error("data that was not shut down cleanly was changed")
	}
}

func setUpAsPromised(t *testing.T, s *enginetest.Server) {
	for query, want := range map[string]string{
		"SHOW data_checksums":           "on",
		"SHOW server_encoding":          "UTF8",
		"SHOW synchronous_commit":       "local",
		"SHOW search_path":              "pg_catalog",
		"SHOW fsync":                    "on",
		"SHOW full_page_writes":         "on",
		"SHOW wal_segment_size":         "4MB",
		"SHOW ssl_min_protocol_version": "TLSv1.2",
		"SHOW unix_socket_permissions":  "0700",
		"SELECT upper('straße é')":      "STRASSE É",
		"SELECT rolcanlogin FROM pg_roles WHERE rolname = 'dbadmin'":                                              "t",
		"SELECT count(*) FROM pg_roles WHERE rolsuper":                                                            "1",
		"SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'defaultdb'":                             "dbadmin",
		"SELECT split_part(rolpassword, ':', 1) ~ '^SCRAM-SHA-256.4096' FROM pg_authid WHERE rolname = 'dbadmin'": "t",
		"SELECT count(*) FROM pg_settings WHERE pending_restart":                                                  "0",
		"SELECT count(*) FROM pg_file_settings WHERE NOT applied":                                                 "0",
	} {
		got := one(t, s, query)
		if strings.Contains(query, "upper") && got == "STRAßE É" {
			continue // the simple mapping of libc and of the builtin provider
		}
		if got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	s.Exec(t, "CREATE TABLE public.mine (v text)", "CREATE SCHEMA more", "CREATE DATABASE second", "CREATE EXTENSION pgcrypto")
	l := s.Login()
	l.Database = "second"
	if _, err := s.DB(t, l).ExecContext(t.Context(), "CREATE TABLE public.mine (v text)"); err != nil {
		t.Errorf("public of a new database: %v", err)
	}
	s.Exec(t, "DROP EXTENSION pgcrypto", "DROP DATABASE second WITH (FORCE)")
}

func passwordsStayOut(t *testing.T, s *enginetest.Server) {
	// They stay out of what a server of before the fence around the log writes, too.
	if _, err := ask(t.Context(), s.Node, "ALTER ROLE ALL RESET log_min_messages"); err != nil {
		t.Fatal(err)
	}
	const secret = "very-secret-Zq81"
	s.Node.RootPassword = secret + "-root"
	if err := s.Bench.Driver.SetRootPassword(t.Context(), s.Node); err != nil {
		t.Fatal(err)
	}
	db := s.DB(t, s.Login())
	for _, q := range []string{
		"ALTER ROLE steward PASSWORD '" + secret + "'", "CREATE ROLE steward PASSWORD '" + secret + "'",
		"ALTER ROLE nobody PASSWORD '" + secret + "'", "SELECT '" + secret + "'::text, 1/0", "SELECT '" + secret + "' FROM nowhere",
		"CALL steward.create_user('steward', '" + secret + "')", "CALL steward.set_password('nobody', '" + secret + "')",
		"DO $$BEGIN EXECUTE 'ALTER ROLE steward PASSWORD ''" + secret + "'''; END$$",
	} {
		if _, err := db.ExecContext(t.Context(), q); err == nil {
			t.Errorf("%s works, so it proves nothing", q)
		}
	}
	if _, err := db.ExecContext(t.Context(), "SELECT 1/($1::text)::int", secret); err == nil {
		t.Error("a parameter that should fail works")
	}
	log := s.Console(t)
	// What a statement's own message quotes can't be kept out: that is the
	// parameter above, sent where a number belongs.
	log = strings.ReplaceAll(log, `invalid input syntax for type integer: "`+secret+`"`, "")
	if !strings.Contains(log, "ERROR") || strings.Contains(log, secret) {
		t.Errorf("the log has no errors, or passwords:\n%s", log)
	}
	if err := s.Bench.Driver.Fence(t.Context(), s.Node); err != nil {
		t.Fatal(err)
	}
}

func reloadRefused(t *testing.T, s *enginetest.Server) {
	reload := func(what string) {
		t.Helper()
		if _, err := s.Bench.Driver.Reload(t.Context(), s.Node); err == nil {
			t.Errorf("reload takes %s", what)
		}
		if err := s.TryLogin(t, s.Login()); err != nil {
			t.Errorf("after %s: %v", what, err)
		}
	}
	change := func(path string, to func(string) string) (undo func()) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := to(string(content))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	undo := change(filepath.Join(s.Node.Conf, serverConf), func(old string) string { return old + "work_mem = 'lots'\n" })
	reload("a bad setting")
	undo()
	undo = change(filepath.Join(s.Node.Conf, accessConf), func(old string) string { return old + "local all all nonsense\n" })
	reload("a bad access file")
	undo()
	undo = change(filepath.Join(s.Node.TLS, engine.TLSCert), func(string) string {
		return "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	})
	reload("a bad certificate")
	undo()
	if restart, err := s.Bench.Driver.Reload(t.Context(), s.Node); err != nil || restart {
		t.Errorf("reload of the good files again: %v, %v", restart, err)
	}
}

func guardIsGentle(t *testing.T, s *enginetest.Server) {
	s.Exec(t, "CREATE TABLE kept (v int)", "INSERT INTO kept VALUES (1), (2)")
	if err := s.Bench.Driver.SetReadOnly(t.Context(), s.Node, true); err == nil {
		t.Error("the guard is turned on although the files say off: a restart would lose it")
	}
	idle := s.DB(t, s.Login())
	if err := idle.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Node.ReadOnly = true
	s.WriteFiles(t)
	time.Sleep(150 * time.Millisecond) // older than the guard's slack, so that it would be ended if it were in a transaction
	if err := s.Bench.Driver.SetReadOnly(t.Context(), s.Node, true); err != nil {
		t.Fatal(err)
	}
	conn, err := idle.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "INSERT INTO kept VALUES (3)"); err == nil || !strings.Contains(err.Error(), "25006") {
		t.Errorf("a session opened before the guard writes on: %v", err)
	}
	for _, q := range []string{"SET default_transaction_read_only = off", "DELETE FROM kept WHERE v = 1", "VACUUM FULL kept"} {
		if _, err := conn.ExecContext(t.Context(), q); err != nil {
			t.Errorf("cleaning up: %s: %v", q, err)
		}
	}
	// Our own work goes on under the guard.
	s.Node.RootPassword = "under-the-guard-7K"
	if err := s.Bench.Driver.SetRootPassword(t.Context(), s.Node); err != nil {
		t.Errorf("set root password under the guard: %v", err)
	}
	s.Node.ReadOnly = false
	s.WriteFiles(t)
	if err := s.Bench.Driver.SetReadOnly(t.Context(), s.Node, false); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "DROP TABLE kept")
}

func replicationRefused(t *testing.T, s *enginetest.Server) {
	config, err := verified(s.Node)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"true", "database"} {
		conn, err := connect(t.Context(), login{
			host: s.Node.Listen.Addr().String(), port: s.Node.Listen.Port(),
			user: customerRole, password: s.Node.RootPassword, database: firstDatabase, tls: config,
			parameters: map[string]string{"replication": kind},
		})
		if err == nil {
			conn.Close(t.Context())
			t.Errorf("a replication connection (%s) is let in", kind)
		}
	}
}

func cantEndOurs(t *testing.T, s *enginetest.Server) {
	ours, err := asAdmin(t.Context(), s.Node, s.Node.AdminPassword)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close(context.WithoutCancel(t.Context()))
	var rows [][]string
	await.NoError(t, "the checkpointer is there", func() (err error) {
		rows, err = query(t.Context(), ours, "SELECT pg_backend_pid(), pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
		if err == nil && len(rows) != 1 {
			err = fmt.Errorf("%d checkpointers", len(rows))
		}
		return err
	})
	db, before := s.DB(t, s.Login()), rows[0][1]
	// The server's own processes answer with a warning before 16, which is as good.
	const checkpointer = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"
	for _, f := range []string{"pg_terminate_backend", "pg_cancel_backend"} {
		if _, err := db.ExecContext(t.Context(), "SELECT "+f+"("+rows[0][1]+")"); err != nil && !refused(err) {
			t.Errorf("%s of the checkpointer: %v", f, err)
		}
		if _, err := db.ExecContext(t.Context(), "SELECT "+f+"("+rows[0][0]+")"); !refused(err) {
			t.Errorf("%s of our session: %v", f, err)
		}
	}
	if rows, err := query(t.Context(), ours, checkpointer); err != nil || rows[0][0] != before {
		t.Errorf("our session, and the checkpointer: %v, %v", rows, err)
	}
	var text string
	if err := db.QueryRowContext(t.Context(), "SELECT query FROM pg_stat_activity WHERE pid = "+rows[0][0]).Scan(&text); err != nil || text != "<insufficient privilege>" {
		t.Errorf("our query as seen by dbadmin: %q, %v", text, err)
	}
}

func socketWantsPassword(t *testing.T, s *enginetest.Server) {
	for _, l := range []login{
		{user: adminRole, password: ""},
		{user: adminRole, password: "wrong"},
		{user: adminRole, password: s.Node.TemplatePassword},
		{user: customerRole, password: s.Node.RootPassword},
		{user: "postgres"},
	} {
		l.host, l.port, l.database = s.Node.Run, s.Node.Listen.Port(), adminDatabase
		if conn, err := connect(t.Context(), l); err == nil {
			conn.Close(t.Context())
			t.Errorf("%s logs in by the socket with %q", l.user, l.password)
		}
	}
}

func hungServer(t *testing.T, s *enginetest.Server) {
	s.Signal(t, syscall.SIGSTOP)
	defer s.Signal(t, syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Bench.Driver.Ping(ctx, s.Node); err == nil || errors.Is(err, engine.ErrStarting) {
		t.Errorf("ping of a server that hangs: %v", err)
	}
}

// everyPlanStarts: the smallest and the largest. On the smallest customers also take all connections.
func everyPlanStarts(t *testing.T, b *enginetest.Bench) {
	for _, plan := range [][3]int{{256, 1024, 1}, {65536, 1310720, 16}} {
		s := b.Started(t, func(n *engine.Node) {
			n.Plan.MemoryMB, n.Plan.DiskMB, n.Plan.VCPUs = plan[0], plan[1], plan[2]
		})
		if got := one(t, s, "SELECT count(*) FROM pg_file_settings WHERE NOT applied"); got != "0" {
			t.Errorf("plan %v: %s settings not applied", plan, got)
		}
		if s.Node.Plan.MemoryMB == 256 {
			cantCrowdOut(t, s)
		}
		s.Kill(t)
	}
}

func plainUsers(t *testing.T, s *enginetest.Server) {
	if before16(s.Bench.Installation) {
		return // there, users are made by the procedures of schema steward
	}
	s.Exec(t, "CREATE ROLE bob LOGIN PASSWORD 'pw'", "CREATE DATABASE bobs OWNER bob", "SET ROLE bob", "RESET ROLE",
		"GRANT CREATE ON SCHEMA public TO bob")
	l := s.Login()
	l.User, l.Password = "bob", "pw"
	db := s.DB(t, l)
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE public.bobs AS SELECT 1 AS v"); err != nil {
		t.Fatal(err)
	}
	// dbadmin has what its users own.
	if got := s.Text(t, "SELECT v FROM public.bobs"); got != "1" {
		t.Errorf("got %s", got)
	}
	s.Exec(t, "ALTER ROLE bob PASSWORD 'pw2'", "DROP DATABASE bobs", "DROP OWNED BY bob", "DROP ROLE bob")
}

func verifyWithoutDatabase(t *testing.T, s *enginetest.Server) {
	l := s.Login()
	s.Exec(t, "CREATE DATABASE other")
	l.Database = "other"
	if _, err := s.DB(t, l).ExecContext(t.Context(), "DROP DATABASE defaultdb"); err != nil {
		t.Fatal(err)
	}
	if err := s.Bench.Driver.VerifyRootPassword(t.Context(), s.Node); err != nil {
		t.Errorf("without defaultdb: %v", err)
	}
	n := s.Node
	n.RootPassword = "wrong"
	if err := s.Bench.Driver.VerifyRootPassword(t.Context(), n); !errors.Is(err, engine.ErrAuthentication) {
		t.Errorf("wrong password: %v", err)
	}
	if _, err := s.DB(t, l).ExecContext(t.Context(), "CREATE DATABASE defaultdb"); err != nil {
		t.Fatal(err)
	}
}

// cantCrowdOut: however many connections customers have, we still come in.
func cantCrowdOut(t *testing.T, s *enginetest.Server) {
	t.Helper()
	var last error
	for range (Driver{}).Connections(s.Node) + meterConnections + 1 {
		last = s.DB(t, s.Login()).PingContext(t.Context())
	}
	if last == nil {
		t.Error("max_connections isn't reached, so this proves nothing")
	}
	if err := s.Bench.Driver.Ping(t.Context(), s.Node); err != nil {
		t.Errorf("ping of a full server: %v", err)
	}
	if _, err := s.Bench.Driver.Version(t.Context(), s.Node); err != nil {
		t.Errorf("query on a full server: %v", err)
	}
	if err := s.Bench.Driver.VerifyRootPassword(t.Context(), s.Node); err != nil {
		t.Errorf("verify on a full server: %v", err)
	}
}

// cantFillLog raises at all levels, also on a server of before the fence.
func cantFillLog(t *testing.T, s *enginetest.Server) {
	raise := func() string {
		t.Helper()
		db := s.DB(t, s.Login())
		defer db.Close()
		before := len(s.Console(t))
		for _, q := range []string{
			"SET client_min_messages = 'debug5'", "SET trace_sort = on",
			"DO $$BEGIN FOR i IN 1..100 LOOP RAISE NOTICE 'flood'; RAISE WARNING 'flood'; END LOOP; END$$",
			"SELECT 'flood' FROM nowhere", "DO $$BEGIN RAISE EXCEPTION 'wanted'; END$$",
		} {
			_, _ = db.ExecContext(t.Context(), q) // some are meant to fail
		}
		return s.Console(t)[before:]
	}
	if got := raise(); strings.Contains(got, "flood") || !strings.Contains(got, `ERROR:  relation "nowhere" does not exist`) || !strings.Contains(got, "ERROR:  wanted") {
		t.Errorf("the log has %.200q", got)
	}
	if _, err := ask(t.Context(), s.Node, "ALTER ROLE ALL RESET log_min_messages"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(raise(), "flood") {
		t.Error("a server of before the fence logs nothing either, so this proves nothing")
	}
	for range 2 {
		if err := s.Bench.Driver.Fence(t.Context(), s.Node); err != nil {
			t.Fatal(err)
		}
	}
	if got := raise(); strings.Contains(got, "flood") {
		t.Errorf("the log of an older server has %.200q", got)
	}
}
