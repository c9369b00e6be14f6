package pgbouncer

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// Files of a pooler.
const (
	MainConf = "pgbouncer.ini"
	hbaConf  = "hba.conf"
	// UsersFile has who may log in, with verifiers.
	UsersFile = "users.txt"
)

// admin is our own account in the console.
const admin = "steward"

// Config is what a pooler is to do.
type Config struct {
	Program Program
	// Listen is where it listens for clients, Run the folder of its unix socket, which it shares with nobody.
	Listen netip.AddrPort
	Run    string
	// Conf, Keys and TLS are the folders with its files, with the users' file and with the certificate.
	Conf, Keys, TLS string
	// Server is where the database's primary listens. TLSToServer has it checked and encrypted; without, nobody can be between.
	Server      netip.AddrPort
	TLSToServer bool
	// TLSOnly refuses clients without TLS.
	TLSOnly bool
	// Clients is how many there can be at once.
	Clients int
	Pools   []cluster.Pool
}

// Files are the configuration, and who comes in by which door.
func (c Config) Files() []engine.File {
	return []engine.File{
		{Path: filepath.Join(c.Conf, MainConf), Content: c.render()},
		{Path: filepath.Join(c.Conf, hbaConf), Content: c.doors()},
	}
}

// doors has our own account in by the socket alone, to the console alone, and customers by TCP, to pools: to some one user only. The first line
// that fits counts.
func (c Config) doors() []byte {
	var b strings.Builder
	b.WriteString(`# Written by steward; changes are overwritten.
local pgbouncer steward scram-sha-256
local all all reject
host pgbouncer all 0.0.0.0/0 reject
host all steward 0.0.0.0/0 reject
`)
	for _, p := range c.Pools {
		if p.User != "" {
			fmt.Fprintf(&b, "host \"%s\" \"%s\" 0.0.0.0/0 scram-sha-256\nhost \"%[1]s\" all 0.0.0.0/0 reject\n", p.Label, p.User)
		}
	}
	b.WriteString("host all all 0.0.0.0/0 scram-sha-256\n")
	return []byte(b.String())
}

type setting struct{ name, value string }

func (c Config) render() []byte {
	var b strings.Builder
	b.WriteString("; Written by steward; changes are overwritten.\n[databases]\n")
	for _, p := range c.Pools {
		// Each user has a pool of the size of its own; the last bound is for all of them together.
		fmt.Fprintf(&b, "%s = host=%s port=%d dbname=%s pool_mode=%s pool_size=%d max_db_connections=%d\n",
			p.Label, c.Server.Addr(), c.Server.Port(), quote(p.Database), p.Mode, p.Size, p.Size)
	}
	b.WriteString("\n[pgbouncer]\n")
	for _, s := range c.settings() {
		fmt.Fprintf(&b, "%s = %s\n", s.name, s.value)
	}
	return []byte(b.String())
}

func (c Config) settings() []setting {
	all := []setting{
		{"listen_addr", c.Listen.Addr().String()},
		{"listen_port", strconv.Itoa(int(c.Listen.Port()))},
		{"listen_backlog", "1024"},
		{"unix_socket_dir", c.Run},
		{"unix_socket_mode", "0700"},
		{"auth_type", "hba"},
		{"auth_hba_file", filepath.Join(c.Conf, hbaConf)},
		{"auth_file", filepath.Join(c.Keys, UsersFile)},
		{"admin_users", admin},
		{"max_client_conn", strconv.Itoa(c.Clients)},
		// Who doesn't log in takes up a connection for so long.
		{"client_login_timeout", "30"},
		// Clients wait while the primary changes: it is tried often, and nobody is sent away soon.
		{"server_login_retry", "0.2"},
		{"server_connect_timeout", "5"},
		{"query_wait_timeout", "120"},
		// What drivers say when they connect and the pooler can't pass on.
		{"ignore_startup_parameters", "extra_float_digits"},
		{"server_reset_query", "DISCARD ALL"},
		{"tcp_keepalive", "1"},
		{"tcp_keepidle", "60"},
		{"tcp_keepintvl", "10"},
		{"tcp_keepcnt", "6"},
		{"client_tls_sslmode", clientTLS(c.TLSOnly)},
		{"client_tls_ca_file", filepath.Join(c.TLS, engine.TLSCA)},
		{"client_tls_cert_file", filepath.Join(c.TLS, engine.TLSCert)},
		{"client_tls_key_file", filepath.Join(c.TLS, engine.TLSKey)},
		{"client_tls_protocols", "secure"},
		{"client_tls_ciphers", "ECDHE+AESGCM:ECDHE+CHACHA20"},
		// Nobody's name or address fills the log.
		{"log_connections", "0"},
		{"log_disconnections", "0"},
		{"log_stats", "0"},
		{"log_pooler_errors", "0"},
	}
	if c.TLSToServer {
		all = append(all, setting{"server_tls_sslmode", "verify-full"}, setting{"server_tls_ca_file", filepath.Join(c.TLS, engine.TLSCA)})
	} else {
		all = append(all, setting{"server_tls_sslmode", "disable"})
	}
	if c.Program.Prepares() {
		all = append(all, setting{"max_prepared_statements", "200"})
	}
	return all
}

func clientTLS(only bool) string {
	if only {
		return "require"
	}
	return "allow"
}

// quote writes a value as it stands in a connection string.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Argv is the command line of a pooler, which stays in the foreground.
func (c Config) Argv() []string {
	return []string{c.Program.Path, filepath.Join(c.Conf, MainConf)}
}

// ReadUsers are the verifiers in what Users wrote, but for our own account's.
func ReadUsers(content []byte) map[string]string {
	users := map[string]string{}
	defer delete(users, admin)
	var fields []string
	for rest := string(content); ; {
		_, after, found := strings.Cut(rest, `"`)
		if !found {
			return users
		}
		var field strings.Builder
		for rest = after; ; rest = rest[1:] {
			end := strings.IndexByte(rest, '"')
			if end < 0 {
				return users // torn
			}
			field.WriteString(rest[:end])
			if rest = rest[end+1:]; !strings.HasPrefix(rest, `"`) {
				break
			}
			field.WriteByte('"')
		}
		if fields = append(fields, field.String()); len(fields) == 2 {
			users[fields[0]], fields = fields[1], nil
		}
	}
}

// Users are who may log in, with what proves their password, for UsersFile. console is the verifier of our own account.
// Users whose names PgBouncer can't keep apart from others are left out.
func Users(verifiers map[string]string, console string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "\"%s\" \"%s\"\n", admin, console)
	for _, name := range slices.Sorted(maps.Keys(verifiers)) {
		if name == admin || strings.ContainsRune(name, 0) {
			continue
		}
		double := func(s string) string { return strings.ReplaceAll(s, `"`, `""`) }
		fmt.Fprintf(&b, "\"%s\" \"%s\"\n", double(name), double(verifiers[name]))
	}
	return []byte(b.String())
}
