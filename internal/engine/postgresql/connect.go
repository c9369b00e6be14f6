package postgresql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// connectTimeout bounds a connection to a server that hangs.
const connectTimeout = 10 * time.Second

// start-up parameters outrank what a customer can set on a role or database.
// With them a connection never looks for a name outside the catalog first,
// isn't stopped by the disk guard, and doesn't wait for replicas.
func ownParameters() map[string]string {
	return map[string]string{
		"search_path":                         "pg_catalog",
		"default_transaction_read_only":       "off",
		"synchronous_commit":                  "local",
		"statement_timeout":                   "20s",
		"lock_timeout":                        "10s",
		"idle_in_transaction_session_timeout": "0",
		"timezone":                            "UTC",
		"jit":                                 "off",
		"application_name":                    "steward",
	}
}

// asAdmin connects as our superuser by the unix socket.
func asAdmin(ctx context.Context, n engine.Node, password string) (*pgconn.PgConn, error) {
	return connectAsOurs(ctx, n, login{password: password, database: adminDatabase, parameters: ownParameters()})
}

// asAdminIn connects as our superuser to a customer's database. What customers
// give a database, a library to load, a role or a time-out, holds in every session
// there, ours too. So each such setting is asked for with the server's own value.
func asAdminIn(ctx context.Context, n engine.Node, database string, parameters map[string]string) (*pgconn.PgConn, error) {
	rows, err := ask(ctx, n, `SELECT DISTINCT name, current_setting(name) FROM pg_db_role_setting, unnest(setconfig) AS given, pg_settings
		WHERE setrole = 0 AND setdatabase = (SELECT oid FROM pg_database WHERE datname = '`+literal(database)+`')
			AND name = split_part(given, '=', 1)`)
	if err != nil {
		return nil, fmt.Errorf("look for settings of %s: %w", database, err)
	}
	all := map[string]string{"role": "none", "session_authorization": adminRole}
	for _, row := range rows {
		all[row[0]] = row[1]
	}
	maps.Copy(all, parameters)
	return connectAsOurs(ctx, n, login{password: n.AdminPassword, database: database, parameters: all})
}

// connectAsOurs connects as our superuser: by the unix socket or, to another machine, by TCP with a server that proves what
// it is.
func connectAsOurs(ctx context.Context, n engine.Node, l login) (*pgconn.PgConn, error) {
	l.user, l.host, l.port = adminRole, n.Run, n.Listen.Port()
	if n.Remote == nil {
		// What we send may be a secret: no threshold and no audit of the customer's has it logged.
		parameters := map[string]string{"log_min_duration_statement": "-1", "pgaudit.log": "none"}
		maps.Copy(parameters, l.parameters)
		l.parameters = parameters
	} else {
		var err error
		if l.tls, err = verified(n); err != nil {
			return nil, err
		}
		l.host, l.port = n.Remote.Address.Addr().String(), n.Remote.Address.Port()
	}
	return connect(ctx, l)
}

type login struct {
	host                     string
	port                     uint16
	user, password, database string
	tls                      *tls.Config
	parameters               map[string]string
}

func connect(ctx context.Context, l login) (*pgconn.PgConn, error) {
	// The parsed text only brings the defaults; nothing of our own environment
	// or home may decide where this goes.
	config, err := pgconn.ParseConfig("host=/nowhere sslmode=disable")
	if err != nil {
		return nil, fmt.Errorf("prepare connection: %w", err)
	}
	config.Host, config.Port, config.Fallbacks = l.host, l.port, nil
	config.User, config.Password, config.Database = l.user, l.password, l.database
	config.TLSConfig, config.RuntimeParams = l.tls, l.parameters
	config.ConnectTimeout = connectTimeout
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect as %s: %w", l.user, classify(err))
	}
	return conn, nil
}

// classify adds the engine's error to PostgreSQL's.
func classify(err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch refused.Code {
		case "57P03", "57P02", "57P01": // starting, recovering, or being stopped
			return fmt.Errorf("%w: %w", engine.ErrStarting, err)
		case "28P01", "28000":
			return fmt.Errorf("%w: %w", engine.ErrAuthentication, err)
		}
		return err
	}
	for _, gone := range []error{
		syscall.ENOENT, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF,
	} {
		if errors.Is(err, gone) {
			return fmt.Errorf("%w: %w", engine.ErrStarting, err)
		}
	}
	return err
}

// query runs one or more statements and returns the last one's rows as text.
func query(ctx context.Context, conn *pgconn.PgConn, sql string) ([][]string, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, classify(err)
	}
	if len(results) == 0 {
		return nil, nil
	}
	return texts(results[len(results)-1]), nil
}

// texts are a result's rows.
func texts(result *pgconn.Result) (rows [][]string) {
	for _, row := range result.Rows {
		all := make([]string, len(row))
		for i, value := range row {
			all[i] = string(value)
		}
		rows = append(rows, all)
	}
	return rows
}

// asOurs is asAdmin with the password that the server should have. A replica
// has the template's until it has received the cluster's own.
func asOurs(ctx context.Context, n engine.Node) (*pgconn.PgConn, error) {
	if n.Role == cluster.Replica {
		return eitherPassword(ctx, n)
	}
	return asAdmin(ctx, n, n.AdminPassword)
}

// shared is a session that questions share.
type shared struct{ conn *pgconn.PgConn }

// Close implements engine.Session.
func (s *shared) Close() { closeSoon(context.Background(), s.conn) }

// Share implements engine.Hosted.
func (Driver) Share(ctx context.Context, n engine.Node) (engine.Node, error) {
	conn, err := asOurs(ctx, n)
	if err != nil {
		return n, err
	}
	remote := *n.Remote
	remote.Session, n.Remote = &shared{conn}, &remote
	return n, nil
}

// session is the one that questions share, or one of its own. It is released when it isn't needed any more.
func session(ctx context.Context, n engine.Node) (conn *pgconn.PgConn, release func(), err error) {
	if n.Remote != nil {
		if s, ok := n.Remote.Session.(*shared); ok && !s.conn.IsClosed() {
			return s.conn, func() {}, nil
		}
	}
	if conn, err = asOurs(ctx, n); err != nil {
		return nil, nil, err
	}
	return conn, func() { _ = conn.Close(context.WithoutCancel(ctx)) }, nil // nothing hangs on it
}

// ask runs statements as our superuser and returns the last one's rows.
func ask(ctx context.Context, n engine.Node, sql string) ([][]string, error) {
	conn, release, err := session(ctx, n)
	if err != nil {
		return nil, err
	}
	defer release()
	return query(ctx, conn, sql)
}

// literal is text as it stands between quotes in SQL.
func literal(s string) string { return strings.ReplaceAll(s, "'", "''") }

// askOne is ask for the single row of a query.
func askOne(ctx context.Context, n engine.Node, sql string) ([]string, error) {
	conn, release, err := session(ctx, n)
	if err != nil {
		return nil, err
	}
	defer release()
	return queryOne(ctx, conn, sql)
}

// queryOne is query for the single row of a query.
func queryOne(ctx context.Context, conn *pgconn.PgConn, sql string) ([]string, error) {
	rows, err := query(ctx, conn, sql)
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 {
		return nil, fmt.Errorf("%d rows where one was expected", len(rows))
	}
	return rows[0], nil
}

// verified is the TLS configuration of a customer who checks everything.
func verified(n engine.Node) (*tls.Config, error) {
	var pem []byte
	name := n.Listen.Addr().String()
	if n.Remote != nil {
		pem, name = n.Remote.CA, n.Remote.Name
	} else {
		var err error
		if pem, err = os.ReadFile(filepath.Join(n.TLS, engine.TLSCA)); err != nil {
			return nil, fmt.Errorf("read CA certificate: %w", err)
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", engine.TLSCA)
	}
	return &tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS12}, nil
}

// door is where customers come in.
func door(n engine.Node) netip.AddrPort {
	if n.Remote != nil {
		return n.Remote.Address
	}
	return n.Listen
}

// closeSoon closes a connection without waiting long for a server that hangs.
func closeSoon(ctx context.Context, conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // nothing hangs on it
}
