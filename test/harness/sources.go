package harness

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // sources are asked by it

	"steward/internal/await"
	"steward/internal/engine"
	"steward/internal/pki"
	"steward/internal/process"
	"steward/internal/testdir"
)

// Source is a server that was started by hand on loopback, whose clients may encrypt what they say. Its superuser is mover.
type Source struct {
	Port     int
	Password string
	// Pid is its process.
	Pid int
	// CA signed its certificate, which is for 127.0.0.1; PEM.
	CA string
	// Open opens one of its databases.
	Open func(t testing.TB, database string) *sql.DB
}

// someUID is whom servers run as that are started by hand, where root starts them.
const someUID = 65534

// byHand is a program as nobody in particular runs it, in a folder of its own. It ends with the test.
func byHand(t testing.TB, dir string, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir) // a MariaDB that starts removes others' temporary tables
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: someUID, Gid: someUID}
	}
	return cmd
}

// byHandFolder is one that it may write into.
func byHandFolder(t testing.TB) string {
	t.Helper()
	dir := testdir.New(t, "src")
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, someUID, someUID); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// made makes the data that a source begins with, once for all tests: the key has to change with the program and with the command.
func made(t testing.TB, data, name, key string, command func(data string) *exec.Cmd) {
	t.Helper()
	err := testdir.Prepared(context.WithoutCancel(t.Context()), data, "source-"+name, key, func(kept string) error {
		if err := os.Mkdir(kept, 0o700); err != nil {
			return err
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(kept, someUID, someUID); err != nil {
				return err
			}
		}
		if out, err := command(kept).CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("make the data of a source: %v", err)
	}
}

// digest is the part of a key that a program is.
func digest(t testing.TB, program string) string {
	t.Helper()
	sum, err := testdir.Digest(program)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// certificate makes a source's certificate and key in a folder of its own.
func (s *Source) certificate(t testing.TB, dir string) (certFile, keyFile string) {
	t.Helper()
	ca, err := pki.NewCA("the source's", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := ca.Issue(nil, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.CA, certFile, keyFile = string(ca.CertPEM()), filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")
	for path, text := range map[string][]byte{certFile: cert, keyFile: key} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(path, someUID, someUID); err != nil {
				t.Fatal(err)
			}
		}
	}
	return certFile, keyFile
}

// startByHand starts a server and waits until it answers.
func startByHand(t testing.TB, cmd *exec.Cmd, s *Source, database string) {
	t.Helper()
	log, err := os.Create(filepath.Join(cmd.Dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	ended := make(chan struct{})
	if err := process.StartBound(cmd, func(error) { close(ended) }); err != nil {
		t.Fatal(err)
	}
	s.Pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		log.Close()
	})
	db := s.Open(t, database)
	await.True(t, "the source answers", func() bool { return db.PingContext(t.Context()) == nil })
}

// PostgreSQLByHand starts a PostgreSQL.
func PostgreSQLByHand(t testing.TB, settings ...string) Source {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		t.Fatal("PostgreSQL isn't installed: scripts/setup --engines")
	}
	bin, dir := filepath.Dir(found[0]), byHandFolder(t)
	s := Source{Port: testdir.Ports(t, 1), Password: "se:cret\\1"}
	pass := filepath.Join(dir, "pass")
	if err := os.WriteFile(pass, []byte(s.Password+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	made(t, data, "postgresql", "1-"+digest(t, found[0]), func(data string) *exec.Cmd {
		return byHand(t, dir, filepath.Join(bin, "initdb"), "-D", data, "-U", "mover", "--pwfile", pass, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	})
	s.Open = func(t testing.TB, database string) *sql.DB {
		db, err := sql.Open("pgx", fmt.Sprintf("host=127.0.0.1 port=%d user=mover password='%s' dbname=%s sslmode=disable", s.Port, strings.ReplaceAll(s.Password, `\`, `\\`), database))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	cert, key := s.certificate(t, dir)
	argv := []string{filepath.Join(bin, "postgres"), "-D", data, "-p", fmt.Sprint(s.Port), "-k", dir, "-h", "127.0.0.1", "-c", "fsync=off", "-c", "ssl=on", "-c", "ssl_cert_file=" + cert, "-c", "ssl_key_file=" + key}
	for _, setting := range settings {
		argv = append(argv, "-c", setting)
	}
	startByHand(t, byHand(t, dir, argv...), &s, "postgres")
	return s
}

// MariaDBByHand starts a MariaDB.
func MariaDBByHand(t testing.TB) Source {
	t.Helper()
	server, err := exec.LookPath("mariadbd")
	if err != nil {
		if server = "/usr/sbin/mariadbd"; !exists(server) {
			t.Fatal("MariaDB isn't installed: scripts/setup --engines")
		}
	}
	dir := byHandFolder(t)
	s := Source{Port: testdir.Ports(t, 1), Password: `se"cret\1`}
	data := filepath.Join(dir, "data")
	made(t, data, "mariadb", "1-"+digest(t, server), func(data string) *exec.Cmd {
		return byHand(t, dir, "mariadb-install-db", "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")
	})
	user := s.mover(t, dir)
	s.openMySQL()
	cert, key := s.certificate(t, dir)
	startByHand(t, byHand(t, dir, server, "--no-defaults", "--ssl-cert="+cert, "--ssl-key="+key, "--datadir="+data, "--port="+fmt.Sprint(s.Port), "--bind-address=127.0.0.1", "--socket="+filepath.Join(dir, "sock"),
		"--pid-file="+filepath.Join(dir, "pid"), "--init-file="+user, "--log-bin="+filepath.Join(dir, "binlog"), "--server-id=77", "--innodb-flush-log-at-trx-commit=0"), &s, "")
	return s
}

// mover writes the SQL that makes the superuser of a MariaDB or MySQL.
func (s *Source) mover(t testing.TB, dir string) (file string) {
	t.Helper()
	file = filepath.Join(dir, "user.sql")
	escape := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	if err := os.WriteFile(file, []byte("CREATE USER mover@'%' IDENTIFIED BY '"+escape.Replace(s.Password)+"';\nGRANT ALL ON *.* TO mover@'%' WITH GRANT OPTION;\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// openMySQL has databases of a MariaDB or MySQL be opened.
func (s *Source) openMySQL() {
	port, password := s.Port, s.Password
	s.Open = func(t testing.TB, database string) *sql.DB {
		config := mysql.NewConfig()
		config.User, config.Passwd, config.Net, config.Addr, config.DBName = "mover", password, "tcp", fmt.Sprintf("127.0.0.1:%d", port), database
		config.MultiStatements, config.Logger = true, &mysql.NopLogger{}
		connector, err := mysql.NewConnector(config)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		t.Cleanup(func() { db.Close() })
		return db
	}
}

// MySQLByHand starts a MySQL.
func MySQLByHand(t testing.TB) Source {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(EnginesFolder(), "mysql-*", "engine.json"))
	if len(found) == 0 {
		t.Fatal("MySQL isn't installed: make engines-ci")
	}
	text, err := os.ReadFile(found[0])
	var build engine.Installation
	if err == nil {
		err = json.Unmarshal(text, &build)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := byHandFolder(t)
	s := Source{Port: testdir.Ports(t, 1), Password: `se"cret\1`}
	data := filepath.Join(dir, "data")
	run := func(data string, args ...string) *exec.Cmd {
		return byHand(t, dir, build.Program("mysqld", append([]string{"--no-defaults", "--datadir=" + data, "--lc-messages-dir=" + build.Share, "--secure-file-priv=NULL", "--innodb-flush-log-at-trx-commit=0"}, args...)...)...)
	}
	user := s.mover(t, dir)
	made(t, data, "mysql", "1-"+build.ID(), func(data string) *exec.Cmd { return run(data, "--initialize-insecure", "--init-file="+user) })
	s.openMySQL()
	cert, key := s.certificate(t, dir)
	startByHand(t, run(data, "--ssl-cert="+cert, "--ssl-key="+key, "--port="+fmt.Sprint(s.Port), "--bind-address=127.0.0.1", "--mysqlx=OFF", "--socket="+filepath.Join(dir, "sock"),
		"--pid-file="+filepath.Join(dir, "pid"), "--log-bin="+filepath.Join(dir, "binlog"), "--server-id=77", "--performance-schema=OFF"), &s, "")
	return s
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
