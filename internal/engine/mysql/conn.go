package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"steward/internal/engine"
)

// Numbers of server errors that are looked at.
const (
	errAccessDenied    = 1045
	errNoSuchThread    = 1094
	errLockWaitTimeout = 1205
	// These say that the server is there, and the latter two that the password is
	// right: there are too many connections, or too many of the user's.
	errTooManyConnections = 1040
	errTooManyOfUser      = 1203
	errUserLimit          = 1226
	errAccountLocked      = 3118
	errAccountLockedMDB   = 4151
)

// session is one connection of ours.
type session struct {
	db   *sql.DB
	conn *sql.Conn
	// customers are the sessions that are neither ours nor the server's own, as a query.
	customers string
	// shared reports whether others use it, too.
	shared bool
}

// admin opens a session as our own account over the unix socket, or the way there is to another machine; or it is the one that questions share.
func (d *Driver) admin(ctx context.Context, n engine.Node) (*session, error) {
	if n.Remote != nil {
		if s, ok := n.Remote.Session.(*sharing); ok {
			return s.session, nil
		}
	}
	return d.adminWith(ctx, n, n.AdminPassword)
}

func (d *Driver) adminWith(ctx context.Context, n engine.Node, password string, options ...func(*mysql.Config)) (*session, error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr = adminUser, password, "unix", socketFile(n)
	customers := customersByHost
	if n.Remote != nil {
		if err := remotely(cfg, n); err != nil {
			return nil, err
		}
		customers = customersByName
	}
	for _, o := range options {
		o(cfg)
	}
	s, err := openAnyway(ctx, cfg, customers)
	if err != nil {
		return nil, fmt.Errorf("connect to node %d as %s: %w", n.Ordinal, cfg.User, err)
	}
	return s, nil
}

// root opens a session as dbadmin the way a customer does: over TCP, with the
// server's certificate verified.
func (d *Driver) root(ctx context.Context, n engine.Node) (*session, error) {
	config, err := verified(n)
	if err != nil {
		return nil, err
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.TLS = rootUser, n.RootPassword, "tcp", n.Listen.String(), config
	if n.Remote != nil {
		cfg.Addr = n.Remote.Address.String()
	}
	s, err := open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to node %d as %s: %w", n.Ordinal, rootUser, err)
	}
	return s, nil
}

// verified is the TLS configuration of a customer who checks everything.
func verified(n engine.Node) (*tls.Config, error) {
	var ca []byte
	name, err := n.Listen.Addr().String(), error(nil)
	if n.Remote != nil {
		ca, name = n.Remote.CA, n.Remote.Name
	} else if ca, err = os.ReadFile(filepath.Join(n.TLS, engine.TLSCA)); err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("read CA: no certificate in it")
	}
	return &tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS12}, nil
}

func open(ctx context.Context, cfg *mysql.Config) (*session, error) {
	return openBy(ctx, cfg, func(c driver.Connector) driver.Connector { return c })
}

// openGuarded opens a session at a server that isn't ours, and may send anything.
func openGuarded(ctx context.Context, cfg *mysql.Config) (*session, error) {
	var dialed net.Conn
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		dialed = conn
		return conn, err
	}
	return openBy(ctx, cfg, func(c driver.Connector) driver.Connector {
		return guarded{c, func() {
			if dialed != nil {
				dialed.Close()
			}
		}}
	})
}

func openBy(ctx context.Context, cfg *mysql.Config, guard func(driver.Connector) driver.Connector) (*session, error) {
	cfg.Timeout, cfg.Params = 5*time.Second, ownVariables()
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(guard(connector))
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, classify(err)
	}
	return &session{db: db, conn: conn}, nil
}

// ownVariables are those of our sessions, whatever customers choose for theirs.
func ownVariables() map[string]string {
	return map[string]string{
		"sql_mode":     "'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
		"time_zone":    "'SYSTEM'",
		"wait_timeout": "28800", "net_read_timeout": "30", "net_write_timeout": "60",
		"group_concat_max_len": "1048576", "long_query_time": neverSlow,
	}
}

func (s *session) close() {
	if s.shared {
		return
	}
	s.conn.Close()
	s.db.Close()
}

// unlogged keeps the session's changes out of the binary log.
func (s *session) unlogged(ctx context.Context) error {
	return s.exec(ctx, "SET SESSION sql_log_bin = 0")
}

func (s *session) exec(ctx context.Context, statements ...string) error {
	for _, q := range statements {
		if _, err := s.conn.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", firstWords(q), classify(err))
		}
	}
	return nil
}

func (s *session) text(ctx context.Context, query string, args ...any) (string, error) {
	var text string
	if err := s.conn.QueryRowContext(ctx, query, args...).Scan(&text); err != nil {
		return "", fmt.Errorf("%s: %w", firstWords(query), classify(err))
	}
	return text, nil
}

// rows scans each row of a query of strings.
func (s *session) rows(ctx context.Context, query string, args ...any) ([][]string, error) {
	_, all, err := s.table(ctx, query, args...)
	return all, err
}

// record is a query's first row by the columns' names, nil when there is none.
func (s *session) record(ctx context.Context, query string) (map[string]string, error) {
	columns, rows, err := s.table(ctx, query)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	all := make(map[string]string, len(columns))
	for i, c := range columns {
		all[c] = rows[0][i]
	}
	return all, nil
}

func (s *session) table(ctx context.Context, query string, args ...any) (columns []string, all [][]string, err error) {
	rows, err := s.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", firstWords(query), classify(err))
	}
	defer rows.Close()
	columns, err = rows.Columns()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", firstWords(query), err)
	}
	for rows.Next() {
		cells := make([]sql.NullString, len(columns))
		targets := make([]any, len(columns))
		for i := range cells {
			targets[i] = &cells[i]
		}
		if err := rows.Scan(targets...); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", firstWords(query), err)
		}
		row := make([]string, len(columns))
		for i, c := range cells {
			row[i] = c.String
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", firstWords(query), classify(err))
	}
	return columns, all, nil
}

// firstWords names a statement in an error without giving away what follows: a
// verifier of a password may be in it.
func firstWords(statement string) string {
	const enough = 40
	if len(statement) <= enough {
		return statement
	}
	return statement[:enough] + "…"
}

// classify adds what the error means to callers of the driver.
func classify(err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %w", engine.ErrStarting, err)
	case is(err, errAccessDenied, errAccountLocked, errAccountLockedMDB):
		return fmt.Errorf("%w: %w", engine.ErrAuthentication, err)
	}
	return err
}

// is reports whether the server answered with one of the error numbers.
func is(err error, numbers ...uint16) bool {
	var answer *mysql.MySQLError
	if !errors.As(err, &answer) {
		return false
	}
	return slices.Contains(numbers, answer.Number)
}

// Ping implements engine.Driver. A fresh clone answers to the template's
// password still.
func (d *Driver) Ping(ctx context.Context, n engine.Node) error {
	s, err := d.admin(ctx, n)
	if errors.Is(err, engine.ErrAuthentication) && n.TemplatePassword != "" {
		s, err = d.adminWith(ctx, n, n.TemplatePassword)
	}
	if is(err, errTooManyConnections) {
		return nil // so says a server that is there
	}
	if err != nil {
		return err
	}
	defer s.close()
	return s.keepRoom(ctx)
}

// VerifyRootPassword implements engine.Driver.
func (d *Driver) VerifyRootPassword(ctx context.Context, n engine.Node) error {
	s, err := d.rootAnyway(ctx, n)
	if is(err, errTooManyOfUser, errUserLimit) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.close()
	_, err = s.text(ctx, "SELECT 1")
	return err
}
