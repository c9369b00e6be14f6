package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Engines as the API names them.
const (
	postgreSQL = "postgresql"
	mySQL      = "mysql"
)

// Endpoint is where and as whom a server is spoken to, always over verified TLS.
type Endpoint struct {
	Engine   string
	Host     string
	Port     int
	User     string
	Password string
	Database string
	// ServerName is what the certificate must be for.
	ServerName string
	CA         []byte
}

// at is the same account at another address: that of a node behind the endpoint.
func (e Endpoint) at(address string) (Endpoint, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return e, fmt.Errorf("address of a node: %w", err)
	}
	e.Host = host
	if e.Port, err = strconv.Atoi(port); err != nil {
		return e, fmt.Errorf("address of a node: %w", err)
	}
	return e, nil
}

func (e Endpoint) connector() (driver.Connector, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(e.CA) {
		return nil, errors.New("the CA certificate can't be read")
	}
	verified := &tls.Config{RootCAs: roots, ServerName: e.ServerName, MinVersion: tls.VersionTLS12}
	if e.Engine == mySQL {
		return e.mysqlConnector(verified)
	}
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d dbname=%s user=%s sslmode=require", e.Host, e.Port, e.Database, e.User))
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	config.Password, config.TLSConfig, config.Fallbacks = e.Password, verified, nil
	return stdlib.GetConnector(*config), nil
}

func (e Endpoint) mysqlConnector(verified *tls.Config) (driver.Connector, error) {
	config := mysql.NewConfig()
	config.User, config.Passwd, config.DBName = e.User, e.Password, e.Database
	config.Net, config.Addr, config.TLS = "tcp", net.JoinHostPort(e.Host, strconv.Itoa(e.Port)), verified
	config.Logger = silent{} // broken connections are what is measured
	return mysql.NewConnector(config)
}

type silent struct{}

func (silent) Print(...any) {}

// The row's key is all there is to it: whether it is there is what counts.
const (
	dropTable   = "DROP TABLE IF EXISTS failover_rows"
	createTable = "CREATE TABLE failover_rows (round int, writer int, seq bigint, PRIMARY KEY (round, writer, seq))"
	insertPG    = "INSERT INTO failover_rows VALUES ($1, $2, $3)"
	insertMySQL = "INSERT INTO failover_rows VALUES (?, ?, ?)"
	selectAll   = "SELECT round, writer, seq FROM failover_rows"
)

// session is one connection with its statement ready.
type session struct {
	db   *sql.DB
	conn *sql.Conn
	stmt *sql.Stmt
}

// connect makes one connection. database/sql never swaps it for another, so that
// an insert is tried once.
func connect(ctx context.Context, c driver.Connector, engine string, timeout time.Duration) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s := &session{db: sql.OpenDB(c)}
	var err error
	if s.conn, err = s.db.Conn(ctx); err != nil {
		s.close()
		return nil, err
	}
	insert := insertPG
	if engine == mySQL {
		insert = insertMySQL
	}
	if s.stmt, err = s.conn.PrepareContext(ctx, insert); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *session) insert(ctx context.Context, r row, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := s.stmt.ExecContext(ctx, r.round, r.writer, r.seq)
	return err
}

// close drops the connection without a word to the server, which may not listen.
func (s *session) close() {
	if s.conn != nil {
		_ = s.conn.Raw(func(any) error { return driver.ErrBadConn }) // ErrBadConn is how a connection is dropped
	}
	_ = s.db.Close()
}

// withDB runs do on a pool of its own.
func (e Endpoint) withDB(do func(*sql.DB) error) error {
	c, err := e.connector()
	if err != nil {
		return err
	}
	db := sql.OpenDB(c)
	defer db.Close()
	return do(db)
}

// prepare makes the table that the writers write to, empty.
func (e Endpoint) prepare(ctx context.Context) error {
	return e.withDB(func(db *sql.DB) error {
		for _, statement := range []string{dropTable, createTable} {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("make the table: %w", err)
			}
		}
		return nil
	})
}

// rows reads all that is there, each row as often as it is found.
func (e Endpoint) rows(ctx context.Context) (map[row]int, error) {
	found := map[row]int{}
	err := e.withDB(func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, selectAll)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r row
			if err := rows.Scan(&r.round, &r.writer, &r.seq); err != nil {
				return err
			}
			found[r]++
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read the rows: %w", err)
	}
	return found, nil
}
