package host_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/pgbouncer"
	"steward/internal/platform"
	"steward/internal/platform/host"
	"steward/internal/process"
	"steward/internal/testdir"
)

// oddDatabase is a name that PostgreSQL takes, and that means something in files of several programs.
const oddDatabase = `we'ird "n";%include /etc/passwd\y #=z é`

// pooled is a cluster with connection pools.
type pooled struct {
	t      *testing.T
	s      *site
	want   platform.Wanted
	driver *host.Driver
	// newer is the build that a patch leads to.
	newer string
}

// newPooled has the older of two builds where there are two.
func newPooled(t *testing.T, size int) *pooled {
	t.Helper()
	if _, err := pgbouncer.Find(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, _ := installations()
	for _, b := range benches(found) {
		if b.Engine != cluster.PostgreSQL || b.Older == "" {
			continue
		}
		s := newSite(t, ofSeries(found, b))
		h := &pooled{t: t, s: s, want: s.bench(b).Wanted(t, 311), newer: b.Newer}
		h.want.Installation = b.Older
		if h.want.Size = size; size > 1 {
			h.want.Replication = modes(b)[0].replication
		}
		h.want.PoolPort = h.want.Port + 5
		h.open()
		t.Cleanup(func() { h.driver.Close() })
		h.apply()
		return h
	}
	t.Fatal("there are no two builds of PostgreSQL: run make engines-ci")
	return nil
}

func (h *pooled) open() {
	h.t.Helper()
	h.driver = h.s.open(h.t)
	h.s.serves(h.driver)
}

// apply applies until all is settled.
func (h *pooled) apply() platform.Observed {
	h.t.Helper()
	ctx := context.WithoutCancel(h.t.Context())
	var seen platform.Observed
	await.NoError(h.t, "the cluster to settle", func() (err error) {
		seen, err = h.driver.Apply(ctx, h.want)
		switch {
		case seen.Permanent:
			h.t.Fatalf("apply: %+v, %v", seen, err)
		case err == nil && !seen.Settled:
			return fmt.Errorf("not settled: %s", seen.Problem)
		}
		return err
	})
	h.want.Hosts, h.want.Installation = seen.Hosts, seen.Installation
	return seen
}

func (h *pooled) root() string { return h.s.secrets.Text(h.want.ID, platform.RootPassword) }

// as is how somebody connects.
type as struct {
	user, password, database string
	// port is the pools' unless it is said.
	port  int
	plain bool // without TLS
	from  string
}

func (h *pooled) connect(ctx context.Context, a as) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(h.s.secrets.Text(h.want.ID, platform.CACert)))
	config.Host, config.Port, config.Fallbacks = h.s.o.PrimaryAddress.String(), uint16(h.want.PoolPort), nil
	if a.port != 0 {
		config.Port = uint16(a.port)
	}
	config.User, config.Password, config.Database = a.user, a.password, a.database
	if config.TLSConfig = (&tls.Config{RootCAs: roots, ServerName: config.Host}); a.plain {
		config.TLSConfig = nil
	}
	from := netip.MustParseAddr("127.0.0.1")
	if a.from != "" {
		from = netip.MustParseAddr(a.from)
	}
	config.DialFunc = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}, Timeout: 10 * time.Second}).DialContext
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.ConnectTimeout = 10 * time.Second
	return pgx.ConnectConfig(ctx, config)
}

// mustConnect is a connection that ends with the test.
func (h *pooled) mustConnect(a as) *pgx.Conn {
	h.t.Helper()
	conn, err := h.connect(h.t.Context(), a)
	if err != nil {
		h.t.Fatalf("connect as %s to %s: %v", a.user, a.database, err)
	}
	h.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// refused demands that somebody isn't let in, with words.
func (h *pooled) refused(what string, a as, words ...string) {
	h.t.Helper()
	conn, err := h.connect(h.t.Context(), a)
	if err == nil {
		_ = conn.Close(h.t.Context())
		h.t.Errorf("%s is let in", what)
		return
	}
	for _, w := range words {
		if strings.Contains(err.Error(), w) {
			return
		}
	}
	if len(words) > 0 {
		h.t.Errorf("%s: %v, want one of %q", what, err, words)
	}
}

func (h *pooled) exec(conn *pgx.Conn, sql string) {
	h.t.Helper()
	if _, err := conn.Exec(h.t.Context(), sql); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
}

func (h *pooled) text(conn *pgx.Conn, sql string) (text string) {
	h.t.Helper()
	if err := conn.QueryRow(h.t.Context(), sql).Scan(&text); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// direct connects past the pools.
func (h *pooled) direct() *pgx.Conn {
	h.t.Helper()
	return h.mustConnect(as{user: "dbadmin", password: h.root(), database: "defaultdb", port: h.want.Port})
}

// pid is the pooler's.
func (h *pooled) pid() int {
	h.t.Helper()
	pids, err := process.Identity{Mark: host.ScopeOf(h.s.o.DataDir) + fmt.Sprintf("/%d-pool", h.want.ID)}.Members()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, pid := range pids {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) == "pgbouncer\n" {
			return pid
		}
	}
	return 0
}

// TestPools: the life of pools before one server.
func TestPools(t *testing.T) {
	t.Parallel()
	h := newPooled(t, 1)
	admin := h.direct()
	h.exec(admin, `CREATE DATABASE "`+strings.ReplaceAll(oddDatabase, `"`, `""`)+`"`)
	h.want.Pools = []cluster.Pool{
		{Label: "app", Database: "defaultdb", Mode: cluster.PoolTransaction, Size: 2},
		{Label: "Odd_1-x", Database: oddDatabase, Mode: cluster.PoolSession, Size: 3},
		{Label: "st", Database: "defaultdb", Mode: cluster.PoolStatement, Size: 1},
	}
	h.apply()
	for _, c := range []struct {
		name string
		do   func(*pooled)
	}{
		{"many share few connections", (*pooled).shares},
		{"modes are those asked for", (*pooled).modes},
		{"nobody else gets in", (*pooled).keepsOut},
		{"a password that was changed ends sessions", (*pooled).changesPasswords},
		{"who is new stays, who has another password is ended, when it is told late", (*pooled).tellsUsersLate},
		{"users of any name log in", (*pooled).takesOddNames},
		{"one user's pool", (*pooled).isOneUsers},
		{"a new certificate is shown", (*pooled).renewsCertificate},
		{"pools come and go", (*pooled).changesPools},
		{"a pooler that is killed comes back", (*pooled).isKilled},
		{"a later steward takes over", (*pooled).isAdopted},
		{"nobody notices that the server is restarted", (*pooled).restartsServer},
		{"all rests and comes back", (*pooled).suspends},
		{"nothing is left", (*pooled).leavesNothing},
	} {
		ok := t.Run(c.name, func(t *testing.T) {
			h.t = t
			c.do(h)
		})
		if h.t = t; !ok {
			break
		}
	}
}

func (h *pooled) app() as { return as{user: "dbadmin", password: h.root(), database: "app"} }

// shares has twenty clients be served by two connections.
func (h *pooled) shares() {
	var work sync.WaitGroup
	pids := sync.Map{}
	for range 20 {
		conn := h.mustConnect(h.app())
		work.Go(func() {
			for range 10 {
				var pid int
				if err := conn.QueryRow(h.t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
					h.t.Error(err)
				}
				pids.Store(pid, true)
			}
		})
	}
	work.Wait()
	count := 0
	pids.Range(func(any, any) bool { count++; return true })
	if count < 1 || count > 2 {
		h.t.Errorf("20 clients were served by %d connections, want at most 2", count)
	}
}

func (h *pooled) modes() {
	session := h.mustConnect(as{user: "dbadmin", password: h.root(), database: "Odd_1-x"})
	if got := h.text(session, "SELECT current_database()"); got != oddDatabase {
		h.t.Errorf("led to %q", got)
	}
	h.exec(session, "CREATE TEMPORARY TABLE kept (x int)")
	h.exec(session, "SELECT * FROM kept")
	statement := h.mustConnect(as{user: "dbadmin", password: h.root(), database: "st"})
	if _, err := statement.Exec(h.t.Context(), "BEGIN"); err == nil {
		h.t.Error("a pool in statement mode takes transactions")
	}
}

// keepsOut tries every door.
func (h *pooled) keepsOut() {
	h.refused("a wrong password", as{user: "dbadmin", password: "wrong", database: "app"}, "SASL", "password")
	h.refused("an empty password", as{user: "dbadmin", database: "app"})
	h.refused("nobody", as{user: "nobody", password: "x", database: "app"}, "SASL", "password")
	h.refused("our own account", as{user: "steward", password: h.s.secrets.Text(h.want.ID, platform.AdminPassword), database: "app"})
	h.refused("our own account in the console", as{user: "steward", password: h.s.secrets.Text(h.want.ID, platform.AdminPassword), database: "pgbouncer"})
	h.refused("a customer in the console", as{user: "dbadmin", password: h.root(), database: "pgbouncer"})
	h.refused("the pooler's own user in the console", as{user: "pgbouncer", password: h.root(), database: "pgbouncer"})
	h.refused("a database that is no pool", as{user: "dbadmin", password: h.root(), database: "defaultdb"}, "no such database")
	h.refused("somebody without TLS", as{user: "dbadmin", password: h.root(), database: "app", plain: true})
	h.refused("a stranger's address", as{user: "dbadmin", password: h.root(), database: "app", from: "127.0.0.9"})
	// The pooler doesn't let our own role in, and the server wouldn't either: its door is for customers.
	admin := h.direct()
	for _, secret := range []string{h.root(), h.s.secrets.Text(h.want.ID, platform.AdminPassword), "SCRAM-SHA-256"} {
		for _, dir := range []string{filepath.Join(h.s.o.DataDir, "clusters", fmt.Sprint(h.want.ID), "pooler"), filepath.Join(h.s.o.DataDir, "clusters", fmt.Sprint(h.want.ID), "pooler.json")} {
			h.nowhereIn(dir, secret)
		}
	}
	// What customers put on their own search path is asked by nobody.
	h.exec(admin, `CREATE SCHEMA hostile; CREATE TABLE hostile.pg_authid AS SELECT 'steward'::name AS rolname, true AS rolcanlogin, 'x' AS rolpassword;
		CREATE FUNCTION hostile.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz'; ALTER ROLE dbadmin SET search_path = hostile, pg_catalog`)
	defer h.exec(admin, "ALTER ROLE dbadmin RESET search_path; DROP SCHEMA hostile CASCADE")
	h.exec(h.mustConnect(h.app()), "SELECT 1")
}

// nowhereIn demands that no file has a text.
func (h *pooled) nowhereIn(dir, text string) {
	h.t.Helper()
	err := testdir.Walk(dir, func(path string, e os.DirEntry) error {
		if !e.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), text) {
			h.t.Errorf("a secret is in %s", path)
		}
		return err
	})
	if err != nil {
		h.t.Error(err)
	}
}

func ended(conn *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := conn.Exec(ctx, "SELECT 1")
	return err != nil
}

func (h *pooled) changesPasswords() {
	before, bystander := h.mustConnect(h.app()), h.mustConnect(as{user: "dbadmin", password: h.root(), database: "app"})
	h.exec(before, "SELECT 1")
	h.exec(bystander, "SELECT 1")
	old := h.app()
	if err := h.s.secrets.SaveSecret(h.t.Context(), h.want.ID, platform.RootPassword, []byte("another-password-1234")); err != nil {
		h.t.Fatal(err)
	}
	if err := h.driver.SetPassword(h.t.Context(), h.want); err != nil {
		h.t.Fatal(err)
	}
	if !ended(before) {
		h.t.Error("a session goes on that began with the old password")
	}
	h.refused("the old password", old, "SASL", "password")
	h.exec(h.mustConnect(h.app()), "SELECT 1")
	// By SQL, where nobody tells us; of somebody whose connections others use, too.
	admin := h.direct()
	h.exec(admin, "CALL steward.create_user('carol', 'first-password')")
	h.exec(admin, "CALL steward.grant_database('carol', 'defaultdb')")
	carol := as{user: "carol", password: "first-password", database: "st"}
	var session *pgx.Conn
	await.True(h.t, "a user who was made by SQL", func() (ok bool) {
		var err error
		session, err = h.connect(h.t.Context(), carol)
		return err == nil
	})
	h.exec(session, "SELECT 1")
	other := h.mustConnect(h.app()) // in another pool
	h.exec(other, "SELECT 1")
	h.exec(admin, "CALL steward.set_password('carol', 'second-password')")
	await.True(h.t, "the end of a session with an old password", func() bool { return ended(session) })
	h.refused("an old password", carol, "SASL", "password")
	h.exec(other, "SELECT 1")
	carol.password = "second-password"
	h.exec(h.mustConnect(carol), "SELECT 1")
	session = h.mustConnect(carol)
	h.exec(admin, "CALL steward.drop_user('carol')")
	await.True(h.t, "the end of a dropped user's session", func() bool { return ended(session) })
	h.refused("a dropped user", carol)
}

// tellsUsersLate has the pooler hear of users from elsewhere before steward can tell it, and steward end in between.
func (h *pooled) tellsUsersLate() {
	admin := h.direct()
	h.exec(admin, "CALL steward.create_user('dave', 'first-password')")
	h.exec(admin, "CALL steward.grant_database('dave', 'defaultdb')")
	dave := as{user: "dave", password: "first-password", database: "st"}
	await.True(h.t, "a user who was made by SQL", func() bool {
		session, err := h.connect(h.t.Context(), dave)
		if err == nil {
			_ = session.Close(h.t.Context())
		}
		return err == nil
	})
	sessionOf := func(a as) (session *pgx.Conn) {
		await.True(h.t, a.user+" to log in", func() bool {
			if err := syscall.Kill(h.pid(), syscall.SIGHUP); err != nil {
				h.t.Fatal(err)
			}
			var err error
			session, err = h.connect(h.t.Context(), a)
			return err == nil
		})
		h.t.Cleanup(func() { _ = session.Close(context.Background()) })
		return session
	}
	// tell returns once the pooler was told: whoever changes users by the API waits for it.
	tell := func() {
		h.t.Helper()
		err := h.driver.Inside(h.t.Context(), h.want.ID, func(context.Context, platform.Logical) error { return nil })
		if err != nil {
			h.t.Fatal(err)
		}
	}
	restore := h.hidesConsole()
	h.exec(admin, "CALL steward.create_user('erin', 'a-password')")
	h.exec(admin, "CALL steward.grant_database('erin', 'defaultdb')")
	erin := sessionOf(as{user: "erin", password: "a-password", database: "app"})
	restore()
	tell()
	h.exec(erin, "SELECT 1")

	session := sessionOf(dave)
	h.exec(session, "SELECT 1")
	restore = h.hidesConsole()
	h.exec(admin, "CALL steward.set_password('dave', 'second-password')")
	tell() // writes it, and can't have it be read
	h.exec(session, "SELECT 1")
	h.driver.Close()
	restore()
	h.open()
	await.True(h.t, "the end of a session with an old password", func() bool { return ended(session) })
	h.refused("an old password", dave, "SASL", "password")
	h.exec(erin, "SELECT 1")
	h.apply()
}

// hidesConsole takes the way to the pooler's console away until the function that it returns is called.
func (h *pooled) hidesConsole() (restore func()) {
	h.t.Helper()
	socket := filepath.Join(h.s.o.RunDir, fmt.Sprintf("%d-pool", h.want.ID), fmt.Sprintf(".s.PGSQL.%d", h.want.PoolPort))
	if err := os.Rename(socket, socket+".away"); err != nil {
		h.t.Fatal(err)
	}
	return func() {
		h.t.Helper()
		if err := os.Rename(socket+".away", socket); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *pooled) takesOddNames() {
	admin := h.direct()
	var made []string
	for _, name := range []string{`a "quoted" one`, "on\ntwo lines", `";admin_users=x`, "pgbouncer_x", "Steward", "ünï"} {
		if _, err := admin.Exec(h.t.Context(), "CALL steward.create_user($1, 'a-password')", name); err != nil {
			if name != "Steward" {
				h.t.Errorf("%q can't be made: %v", name, err)
			}
			continue
		}
		h.exec(admin, "CALL steward.grant_database('"+strings.ReplaceAll(name, "'", "''")+"', 'defaultdb')")
		made = append(made, name)
	}
	for _, name := range made {
		var session *pgx.Conn
		await.True(h.t, fmt.Sprintf("%q to log in", name), func() bool {
			var err error
			session, err = h.connect(h.t.Context(), as{user: name, password: "a-password", database: "app"})
			return err == nil
		})
		if got := h.text(session, "SELECT current_user"); got != name {
			h.t.Errorf("%q is %q in the server", name, got)
		}
		_ = session.Close(h.t.Context())
		h.refused(fmt.Sprintf("%q in the console", name), as{user: name, password: "a-password", database: "pgbouncer"})
	}
}

// isOneUsers gives a pool to one user: others are ended and kept out, of this pool alone.
func (h *pooled) isOneUsers() {
	const name = "one, all +app @app #"
	admin := h.direct()
	h.exec(admin, "CALL steward.create_user('"+name+"', 'a-password')")
	h.exec(admin, "CALL steward.grant_database('"+name+"', 'defaultdb')")
	before, elsewhere := h.mustConnect(h.app()), h.mustConnect(as{user: "dbadmin", password: h.root(), database: "st"})
	h.exec(before, "SELECT 1")
	h.want.Pools = slices.Clone(h.want.Pools)
	h.want.Pools[0].User = name
	h.apply()
	await.True(h.t, "the end of others' sessions", func() bool { return ended(before) })
	h.refused("another user", h.app())
	h.exec(elsewhere, "SELECT 1")
	h.mustConnect(as{user: "dbadmin", password: h.root(), database: "st"})
	var session *pgx.Conn
	await.True(h.t, "the user to log in", func() bool {
		var err error
		session, err = h.connect(h.t.Context(), as{user: name, password: "a-password", database: "app"})
		return err == nil
	})
	if got := h.text(session, "SELECT session_user"); got != name {
		h.t.Errorf("in the server it is %q", got)
	}
	h.refused("the user in the console", as{user: name, password: "a-password", database: "pgbouncer"})
	h.want.Pools = slices.Clone(h.want.Pools)
	h.want.Pools[0].User = ""
	h.apply()
	h.exec(session, "SELECT 1")
	h.exec(h.mustConnect(h.app()), "SELECT 1")
}

// renewsCertificate has the server's certificate be lost: the pooler shows the next one, and ends nobody's session for it.
func (h *pooled) renewsCertificate() {
	serial := func(conn *pgx.Conn) string {
		h.t.Helper()
		secure, ok := conn.PgConn().Conn().(*tls.Conn)
		if !ok {
			h.t.Fatal("no TLS")
		}
		return secure.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := h.mustConnect(h.app())
	if err := os.Remove(filepath.Join(h.s.o.DataDir, "clusters", fmt.Sprint(h.want.ID), "node-0", "tls", engine.TLSCert)); err != nil {
		h.t.Fatal(err)
	}
	h.apply()
	h.exec(before, "SELECT 1")
	if after := h.mustConnect(h.app()); serial(after) == serial(before) {
		h.t.Error("the pooler shows the old certificate")
	}
}

func (h *pooled) changesPools() {
	stays, goes := h.mustConnect(h.app()), h.mustConnect(as{user: "dbadmin", password: h.root(), database: "st"})
	h.exec(stays, "SELECT 1")
	h.exec(goes, "SELECT 1")
	pid := h.pid()
	h.want.Pools = append([]cluster.Pool{}, h.want.Pools[:2]...)
	h.want.Pools[0].Size = 3
	h.apply()
	h.exec(stays, "SELECT 1")
	if !ended(goes) {
		h.t.Error("a session of a pool that was deleted goes on")
	}
	h.refused("a pool that was deleted", as{user: "dbadmin", password: h.root(), database: "st"}, "no such database")
	if h.pid() != pid {
		h.t.Error("the pooler was restarted")
	}
	// Who may no longer connect is cut, as without a pool.
	h.want.AllowList = cluster.AllowList{"127.0.0.3"}
	h.apply()
	h.refused("an address that was taken off the list", h.app())
	if !ended(stays) {
		h.t.Error("a session of an address that was taken off the list goes on")
	}
	h.want.AllowList = cluster.AllowList{"127.0.0.1"}
	h.apply()
}

func (h *pooled) isKilled() {
	pid := h.pid()
	if pid == 0 {
		h.t.Fatal("no pooler runs")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		h.t.Fatal(err)
	}
	await.NoError(h.t, "a pool again", func() error {
		conn, err := h.connect(h.t.Context(), h.app())
		if err != nil {
			return err
		}
		defer conn.Close(h.t.Context())
		_, err = conn.Exec(h.t.Context(), "SELECT 1")
		return err
	})
	if h.pid() == pid {
		h.t.Error("it wasn't killed")
	}
}

func (h *pooled) isAdopted() {
	conn, pid := h.mustConnect(h.app()), h.pid()
	h.exec(conn, "SELECT 1")
	h.driver.Close()
	h.exec(conn, "SELECT 1") // steward is away
	h.open()
	h.apply()
	h.exec(conn, "SELECT 1")
	if h.pid() != pid {
		h.t.Error("the pooler was restarted")
	}
	// What changed while nobody looked.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		h.t.Fatal(err)
	}
	await.True(h.t, "another pooler", func() bool { p := h.pid(); return p != 0 && p != pid })
}

// busy are clients who write, in transactions of several statements, until they are told to stop.
type busy struct {
	h      *pooled
	stop   chan struct{}
	work   sync.WaitGroup
	failed atomic.Int32
	done   atomic.Int64
	most   atomic.Int64 // the longest that a transaction took, in ns
}

func (h *pooled) busy(clients int) *busy {
	h.t.Helper()
	h.exec(h.direct(), "CREATE TABLE IF NOT EXISTS written (client int, n int)")
	b := &busy{h: h, stop: make(chan struct{})}
	for client := range clients {
		conn := h.mustConnect(h.app())
		b.work.Go(func() { b.write(conn, client) })
	}
	return b
}

func (b *busy) write(conn *pgx.Conn, client int) {
	ctx := context.WithoutCancel(b.h.t.Context())
	for n := 0; ; n++ {
		select {
		case <-b.stop:
			return
		default:
		}
		began := time.Now()
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, fmt.Sprintf("INSERT INTO written VALUES (%d, %d)", client, n)); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "SELECT count(*) FROM written WHERE n = -1")
			return err
		})
		if took := int64(time.Since(began)); took > b.most.Load() {
			b.most.Store(took)
		}
		if err != nil {
			b.failed.Add(1)
			b.h.t.Logf("client %d: %v", client, err)
			if conn.IsClosed() {
				return
			}
			continue
		}
		b.done.Add(1)
	}
}

// ends tells them to stop and demands that nothing failed, and all is there.
func (b *busy) ends(what string) {
	b.h.t.Helper()
	close(b.stop)
	b.work.Wait()
	if failed := b.failed.Load(); failed > 0 {
		b.h.t.Errorf("%s: %d statements failed of clients of a pool", what, failed)
	}
	var rows int64
	if err := b.h.direct().QueryRow(b.h.t.Context(), "SELECT count(*) FROM written").Scan(&rows); err != nil {
		b.h.t.Fatal(err)
	}
	if rows < b.done.Load() {
		b.h.t.Errorf("%s: %d rows of %d that were acknowledged", what, rows, b.done.Load())
	}
	b.h.t.Logf("%s: %d transactions, the longest took %v", what, b.done.Load(), time.Duration(b.most.Load()).Round(time.Millisecond))
}

// progress waits until transactions go on.
func (b *busy) progress() {
	b.h.t.Helper()
	before := b.done.Load()
	await.True(b.h.t, "transactions to go on", func() bool { return b.done.Load() > before+20 })
}

func (h *pooled) restartsServer() {
	b := h.busy(6)
	b.progress()
	h.want.Restart = 7
	h.apply()
	b.progress()
	h.want.Plan.MemoryMB *= 2
	h.apply()
	b.progress()
	b.ends("restarts of one node")
}

func (h *pooled) suspends() {
	h.want.Suspended = true
	h.apply()
	if h.pid() != 0 {
		h.t.Error("a suspended database has a pooler")
	}
	h.refused("a customer of a suspended database", h.app())
	h.want.Suspended = false
	h.apply()
	h.exec(h.mustConnect(h.app()), "SELECT 1")
}

func (h *pooled) leavesNothing() {
	h.mustConnect(h.app())
	h.want.Pools = nil
	h.apply()
	h.gone()
	h.refused("a pool that was deleted", h.app())
	h.exec(h.direct(), "SELECT 1")
	h.want.Pools = []cluster.Pool{{Label: "again", Database: "defaultdb", Mode: cluster.PoolTransaction, Size: 1}}
	h.apply()
	h.exec(h.mustConnect(as{user: "dbadmin", password: h.root(), database: "again"}), "SELECT 1")
	if err := h.driver.Remove(h.t.Context(), h.want.Cluster); err != nil {
		h.t.Fatal(err)
	}
	h.gone()
	if left := h.s.leftovers(h.t, h.want.ID, h.want.Port); len(left) > 0 {
		h.t.Errorf("left of the cluster: %v", left)
	}
}

// gone demands that nothing of the pooler is left.
func (h *pooled) gone() {
	h.t.Helper()
	name, id := fmt.Sprintf("%d-pool", h.want.ID), fmt.Sprint(h.want.ID)
	for _, path := range []string{
		filepath.Join(h.s.o.RunDir, name), filepath.Join(h.s.o.KeysDir, name),
		filepath.Join(h.s.o.DataDir, "clusters", id, "pooler"), filepath.Join(h.s.o.DataDir, "clusters", id, "pooler.json"),
	} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			h.t.Errorf("%s is left: %v", path, err)
		}
	}
	if pids, err := (process.Identity{Mark: host.ScopeOf(h.s.o.DataDir) + "/" + name}).Members(); err != nil || len(pids) > 0 {
		h.t.Errorf("processes %v are left, %v", pids, err)
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/steward-" + host.ScopeOf(h.s.o.DataDir) + "/" + name)
	if err != nil || len(groups) > 0 {
		h.t.Errorf("control groups %v are left, %v", groups, err)
	}
	routes, err := h.s.gateway.Routes(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range routes {
		if r.Port == h.want.PoolPort {
			h.t.Errorf("a route is left: %+v", r)
		}
	}
	if !h.s.kernel {
		return
	}
	numbers, err := h.s.o.Networks.Numbers()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, n := range numbers {
		if h.s.o.Networks.SameCluster(n, h.want.PoolPort) {
			h.t.Errorf("network %d is left", n)
		}
	}
}

// TestPoolsOfThreeNodes: clients of a pool see nothing of planned switchovers, and go on after others.
func TestPoolsOfThreeNodes(t *testing.T) { testPoolsOfThreeNodes(t, false) }

// TestPoolsOfThreeNodesThorough has the primary change for more reasons.
func TestPoolsOfThreeNodesThorough(t *testing.T) { testPoolsOfThreeNodes(t, true) }

func testPoolsOfThreeNodes(t *testing.T, thorough bool) {
	t.Helper()
	t.Parallel()
	h := newPooled(t, 3)
	h.want.Pools = []cluster.Pool{{Label: "app", Database: "defaultdb", Mode: cluster.PoolTransaction, Size: 4}}
	h.apply()
	b := h.busy(8)
	switchovers := 1
	if thorough {
		switchovers = 2
	}
	for range switchovers {
		b.progress()
		from := 0
		seen, err := h.driver.Observe(t.Context(), h.want.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range seen.Nodes {
			if n.Role == cluster.Primary {
				from = n.Ordinal
			}
		}
		h.want.Switchover = &from
		if after := h.apply(); after.Failovers != seen.Failovers+1 {
			t.Errorf("%d changes of the primary after %d", after.Failovers, seen.Failovers)
		}
	}
	h.want.Switchover = nil
	b.progress()
	if thorough {
		h.want.Plan.MemoryMB *= 2
		h.apply()
		b.progress()
		h.want.Restart = 9
		h.apply()
		b.progress()
		h.want.Patch = true
		if seen := h.apply(); seen.Installation != h.newer {
			t.Errorf("patched to %s, not %s", seen.Installation, h.newer)
		}
		h.want.Patch = false
		b.progress()
	}
	b.ends("changes of three nodes")

	conn := h.mustConnect(h.app())
	var before, now string // where the server is: one that is killed may answer some more
	const where = "SELECT host(inet_server_addr()) || ' ' || inet_server_port()"
	if err := conn.QueryRow(t.Context(), where).Scan(&before); err != nil {
		t.Fatal(err)
	}
	killed := h.s.pid(t, h.want.ID)
	for _, n := range h.apply().Nodes {
		if n.Role == cluster.Primary {
			killed = n.Pid
		}
	}
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var refused *pgconn.PgError
	await.True(t, "a pool that leads to the new primary", func() bool {
		err := conn.QueryRow(t.Context(), where).Scan(&now)
		if err != nil && !errors.As(err, &refused) {
			if conn.IsClosed() {
				conn = h.mustConnect(h.app())
			}
		}
		return err == nil && now != before
	})
	h.apply()
	h.exec(conn, "INSERT INTO written VALUES (-1, -1)")

	b = h.busy(4)
	b.progress()
	h.want.Size, h.want.Replication = 1, cluster.ReplicationNone
	h.apply()
	b.progress()
	b.ends("two nodes that go")
}
