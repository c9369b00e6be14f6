package harness

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Database is a database as the API shows it.
type Database struct {
	ID     int64  `json:"id"`
	Label  string `json:"label"`
	Engine string `json:"engine"`
	// Version is the release series.
	Version string `json:"version"`
	Status  string `json:"status"`
	Type    string `json:"type"`
	Port    int    `json:"port"`
	Hosts   struct {
		Primary   string `json:"primary"`
		Secondary string `json:"secondary"`
	} `json:"hosts"`
	Members       map[string]string `json:"members"`
	ClusterSize   int               `json:"cluster_size"`
	AllowList     []string          `json:"allow_list"`
	ServerVersion string            `json:"server_version"`
	Encrypted     bool              `json:"encrypted"`
	Sleeping      bool              `json:"sleeping"`
}

// Path is the database's address in the API.
func (d Database) Path() string {
	return fmt.Sprintf("/v4/databases/%s/instances/%d", d.Engine, d.ID)
}

// Credentials are dbadmin's, and the CA to verify the server with.
type Credentials struct {
	Username string `json:"username"`
	Password string `json:"password"`
	CA       []byte
	// Logical is the logical database to connect to; the first one when "".
	Logical string `json:"-"`
}

// Spec is a create request.
type Spec map[string]any

// Small is the smallest database of an engine, open to loopback.
func Small(label, engineID string) Spec {
	return Spec{
		"label": label, "engine": engineID, "region": "local", "type": "g6-nanode-1",
		"allow_list": []string{"127.0.0.1"},
	}
}

// Create posts the spec and returns the answer without waiting.
func (s *Server) Create(spec Spec) Database {
	s.t.Helper()
	var d Database
	engine, _ := spec["engine"].(string)
	if status, body := s.Call("POST", "/v4/databases/"+family(engine)+"/instances", spec, &d); status != 200 {
		s.t.Fatalf("create: %d %s", status, body)
	}
	return d
}

// CreateActive creates a database and waits until it is active.
func (s *Server) CreateActive(spec Spec) Database {
	s.t.Helper()
	return s.AwaitStatus(s.Create(spec), "active")
}

func family(engineID string) string {
	if len(engineID) > 5 && engineID[:5] == "mysql" {
		return "mysql"
	}
	return "postgresql"
}

// BeginWith has new databases begin with a build, instead of the newest. Store is the
// URL of the server's store.
func BeginWith(t testing.TB, store, build string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "ALTER TABLE clusters ALTER COLUMN installation SET DEFAULT '"+build+"'"); err != nil {
		t.Fatal(err)
	}
}

// AwaitStatus polls until the database has the status.
func (s *Server) AwaitStatus(d Database, status string) Database {
	s.t.Helper()
	s.Eventually(d.Label+" "+status, func() error {
		var now Database // a map that is decoded into keeps what it held
		code, body, err := s.TryCall("GET", d.Path(), nil, &now)
		if err != nil {
			return err
		}
		if code != 200 || now.Status != status {
			return fmt.Errorf("%d %s", code, body)
		}
		d = now
		return nil
	})
	return d
}

// Credentials reads password and CA of a database.
func (s *Server) Credentials(d Database) Credentials {
	s.t.Helper()
	var c Credentials
	if status, body := s.Call("GET", d.Path()+"/credentials", nil, &c); status != 200 {
		s.t.Fatalf("credentials: %d %s", status, body)
	}
	var ssl struct {
		CA string `json:"ca_certificate"`
	}
	if status, body := s.Call("GET", d.Path()+"/ssl", nil, &ssl); status != 200 {
		s.t.Fatalf("ssl: %d %s", status, body)
	}
	ca, err := base64.StdEncoding.DecodeString(ssl.CA)
	if err != nil {
		s.t.Fatal(err)
	}
	c.CA = ca
	return c
}

// Connect opens one connection as dbadmin over verified TLS through the
// gateway, from the given loopback source address ("" for any).
func Connect(ctx context.Context, d Database, c Credentials, source string) (*sql.DB, error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if source != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	return ConnectBy(ctx, d, c, dialer.DialContext)
}

// ConnectBy is Connect by a dialer of the caller's.
func ConnectBy(ctx context.Context, d Database, c Credentials, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*sql.DB, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c.CA) {
		return nil, errors.New("the CA certificate can't be read")
	}
	verified := &tls.Config{RootCAs: roots, ServerName: d.Hosts.Primary, MinVersion: tls.VersionTLS12}
	address := net.JoinHostPort(d.Hosts.Primary, fmt.Sprint(d.Port))
	var db *sql.DB
	if d.Engine == "mysql" {
		config := mysql.NewConfig()
		config.User, config.Passwd, config.DBName = c.Username, c.Password, cmp.Or(c.Logical, "defaultdb")
		config.Net, config.Addr, config.TLS = "tcp", address, verified
		config.DialFunc = dial
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return nil, err
		}
		db = sql.OpenDB(connector)
	} else {
		config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d dbname=defaultdb user=%s sslmode=require", d.Hosts.Primary, d.Port, c.Username))
		if err != nil {
			return nil, err
		}
		config.Password, config.TLSConfig, config.Fallbacks, config.Database = c.Password, verified, nil, cmp.Or(c.Logical, "defaultdb")
		config.DialFunc = dial
		db = stdlib.OpenDB(*config)
	}
	db.SetMaxOpenConns(1)
	if err := db.PingContext(ctx); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// PoolPort is where a database's connection pools are; 0 without any.
func (s *Server) PoolPort(d Database) int {
	s.t.Helper()
	var view struct {
		Hosts struct {
			Endpoints []struct {
				Role string `json:"role"`
				Port int    `json:"port"`
			} `json:"endpoints"`
		} `json:"hosts"`
	}
	if status, body := s.Call("GET", d.Path(), nil, &view); status != 200 {
		s.t.Fatalf("view: %d %s", status, body)
	}
	for _, e := range view.Hosts.Endpoints {
		if e.Role == "primary-connection-pool" {
			return e.Port
		}
	}
	return 0
}

// ConnectPool opens one connection as dbadmin to a pool at a port, whose statements aren't prepared.
func ConnectPool(ctx context.Context, d Database, port int, c Credentials, label string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d dbname=%s user=%s sslmode=require", d.Hosts.Primary, port, label, c.Username))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c.CA) {
		return nil, errors.New("the CA certificate can't be read")
	}
	config.Password, config.Fallbacks = c.Password, nil
	config.TLSConfig = &tls.Config{RootCAs: roots, ServerName: d.Hosts.Primary, MinVersion: tls.VersionTLS12}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	return pgx.ConnectConfig(ctx, config)
}

// MustConnect is Connect, retried until it works.
func (s *Server) MustConnect(d Database, c Credentials) *sql.DB {
	s.t.Helper()
	var db *sql.DB
	s.Eventually("connected", func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		db, err = Connect(ctx, d, c, "")
		return err
	})
	s.t.Cleanup(func() { db.Close() })
	return db
}
