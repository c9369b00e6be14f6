package host_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/netns"
	"steward/internal/platform"
)

// hidesPassword has customers look for the replicas' password while a primary comes and
// goes, and then gives it to them: by the gateway it opens nothing.
func (h *threeNodes) hidesPassword() {
	if h.want.Engine != cluster.MySQL {
		h.t.Skip("about how replicas of MySQL log in")
	}
	watch := h.watchSessions()
	h.killsPrimaries(1)
	secret := h.replicaPassword()
	seen := watch.end()
	if !slices.ContainsFunc(seen, func(s string) bool { return strings.Contains(s, "information_schema") }) {
		h.t.Fatalf("the sessions don't even see themselves: %q", seen)
	}
	for _, s := range seen {
		if strings.Contains(s, secret) || strings.Contains(s, "CHANGE ") {
			h.t.Errorf("a customer sees %q", strings.ReplaceAll(s, secret, "(the password)"))
		}
	}
	for _, address := range []netip.Addr{h.s.o.PrimaryAddress, h.s.o.SecondaryAddress} {
		at := netip.AddrPortFrom(address, uint16(h.want.Port))
		var err error
		var refusal *mysql.MySQLError
		await.True(h.t, "an answer from behind the gateway", func() bool {
			err = h.logIn(at, "steward_replica", secret)
			return err == nil || errors.As(err, &refusal)
		})
		if refusal == nil || refusal.Number != 1045 {
			h.t.Errorf("log in for replication by the gateway %s: %v, want it refused", at, err)
		}
	}
	// It is the right password where replicas come from.
	primary := netip.MustParseAddrPort(h.node(h.healthy(), cluster.Primary).Address)
	from := ""
	if n := h.s.o.Networks; n != nil {
		from = n.PathOf(netip.MustParseAddrPort(h.node(h.healthy(), cluster.Replica).Address))
		if err := h.logIn(primary, "steward_replica", secret); err == nil {
			h.t.Error("the machine's own address is enough to log in as a replica does")
		}
	}
	if err := h.logInFrom(from, primary, "steward_replica", secret); err != nil {
		h.t.Errorf("log in as a replica does: %v", err)
	}
}

// sessionWatch holds sessions of customers that look at what other sessions run.
type sessionWatch struct {
	stop context.CancelFunc
	wg   sync.WaitGroup
	mu   sync.Mutex
	seen map[string]bool
}

func (w *sessionWatch) end() []string {
	w.stop()
	w.wg.Wait()
	var list []string
	for text := range w.seen {
		list = append(list, text)
	}
	return list
}

// watchSessions connects by both addresses.
func (h *threeNodes) watchSessions() *sessionWatch {
	h.t.Helper()
	ctx, stop := context.WithCancel(h.t.Context())
	w := &sessionWatch{stop: stop, seen: map[string]bool{}}
	for _, address := range []netip.Addr{h.s.o.PrimaryAddress, h.s.o.SecondaryAddress} {
		at := netip.AddrPortFrom(address, uint16(h.want.Port))
		w.wg.Go(func() {
			for ctx.Err() == nil {
				_ = h.session(ctx, "", at, "dbadmin", h.load.customer.password, func(db *sql.Conn) error { return w.watch(ctx, db) })
				time.Sleep(20 * time.Millisecond) // nobody answers while a primary is away
			}
		})
	}
	return w
}

func (w *sessionWatch) watch(ctx context.Context, db *sql.Conn) error {
	for {
		if err := w.poll(ctx, db); err != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond) // a statement that names the password takes longer: it writes to disk
	}
}

func (w *sessionWatch) poll(ctx context.Context, db *sql.Conn) error {
	rows, err := db.QueryContext(ctx, "SELECT COALESCE(INFO, '') FROM information_schema.PROCESSLIST")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		w.mu.Lock()
		w.seen[text] = true
		w.mu.Unlock()
	}
	return rows.Err()
}

func (h *threeNodes) logIn(at netip.AddrPort, user, password string) error {
	return h.logInFrom("", at, user, password)
}

// logInFrom logs in from a network namespace; "" for the test's own.
func (h *threeNodes) logInFrom(namespace string, at netip.AddrPort, user, password string) error {
	return h.session(h.t.Context(), namespace, at, user, password, func(*sql.Conn) error { return nil })
}

func (h *threeNodes) session(ctx context.Context, namespace string, at netip.AddrPort, user, password string, use func(*sql.Conn) error) error {
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User, config.Passwd = "tcp", at.String(), user, password
	config.DialFunc = func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = netns.Do(namespace, func() error {
			c, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return c, err
	}
	config.TLS = h.load.customer.secure.Clone()
	config.TLS.ServerName = at.Addr().String()
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return use(conn)
}

func (h *threeNodes) flavour() engine.Flavour {
	for _, i := range h.s.o.Installations {
		if i.Series == h.want.Series {
			return i.Flavour
		}
	}
	return ""
}

// replicaPassword is the one that a replica keeps.
func (h *threeNodes) replicaPassword() string {
	h.t.Helper()
	replica := h.node(h.healthy(), cluster.Replica)
	if h.flavour() == engine.FlavourMariaDB {
		content, err := os.ReadFile(filepath.Join(h.data(replica.Ordinal), "master.info"))
		if err != nil {
			h.t.Fatal(err)
		}
		lines := strings.Split(string(content), "\n")
		return lines[slices.Index(lines, "steward_replica")+1]
	}
	config := mysql.NewConfig()
	config.User, config.Passwd, config.Net = "steward", h.s.secrets.Text(h.want.ID, platform.AdminPassword), "unix"
	config.Addr = filepath.Join(h.s.o.RunDir, fmt.Sprintf("%d-%d", h.want.ID, replica.Ordinal), "mysql.sock")
	connector, err := mysql.NewConnector(config)
	if err != nil {
		h.t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	var password string
	if err := db.QueryRowContext(h.t.Context(), "SELECT User_password FROM mysql.slave_master_info").Scan(&password); err != nil {
		h.t.Fatal(err)
	}
	return password
}
