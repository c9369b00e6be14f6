package bench

import (
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"steward/internal/await"
)

// floor creates servers by hand: cp of a template, start, SELECT over TLS.
type floor struct {
	engine, dir string
	credential  *syscall.Credential
	n           int
}

const floorPassword = "floor"

func newFloor(b *testing.B, engine string) *floor {
	b.Helper()
	dir, err := os.MkdirTemp("", "steward-floor-")
	if err != nil {
		b.Fatal(err)
	}
	f := &floor{engine: engine, dir: dir}
	b.Cleanup(func() { os.RemoveAll(dir) })
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			b.Fatal(err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		f.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			b.Fatal(err)
		}
	}
	template := filepath.Join(dir, "template")
	f.run(b, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
		"-subj", "/CN=localhost", "-keyout", filepath.Join(dir, "key.pem"), "-out", filepath.Join(dir, "cert.pem"))
	if f.mysql() {
		f.run(b, "mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--datadir="+template)
		f.mysqlTemplate(b, template)
		return f
	}
	pwfile := filepath.Join(dir, "pw")
	if err := os.WriteFile(pwfile, []byte(floorPassword), 0o644); err != nil {
		b.Fatal(err)
	}
	f.run(b, "/usr/lib/postgresql/15/bin/initdb", "-N", "-k", "-U", "floor", "--pwfile", pwfile, "--locale=C.UTF-8", "-A", "scram-sha-256", "-D", template)
	return f
}

func (f *floor) mysql() bool { return strings.HasPrefix(f.engine, "mysql") }

func (f *floor) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = f.dir
	if f.credential != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: f.credential}
	}
	return cmd
}

func (f *floor) run(b *testing.B, name string, args ...string) {
	b.Helper()
	if out, err := f.command(name, args...).CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// mysqlTemplate gives the template's root a password by starting it once.
func (f *floor) mysqlTemplate(b *testing.B, template string) {
	server := f.start(b, template, freePort(b))
	db, err := sql.Open("mysql", "root@unix("+server.socket+")/")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	await.NoError(b, "the server answers", db.Ping)
	for _, q := range []string{"CREATE USER 'floor'@'%' IDENTIFIED BY '" + floorPassword + "' REQUIRE SSL", "GRANT ALL ON *.* TO 'floor'@'%'"} {
		if _, err := db.Exec(q); err != nil {
			b.Fatal(err)
		}
	}
	server.stop()
}

type handServer struct {
	cmd    *exec.Cmd
	port   int
	socket string
}

func (s handServer) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	if strings.Contains(s.cmd.Path, "mariadbd") {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
	}
	_ = s.cmd.Wait()
}

func (f *floor) start(b *testing.B, data string, port int) handServer {
	b.Helper()
	socket := filepath.Join(data, "s")
	var cmd *exec.Cmd
	if f.mysql() {
		cmd = f.command("/usr/sbin/mariadbd", "--no-defaults", "--datadir="+data, "--socket="+socket, "--bind-address=127.0.0.1",
			fmt.Sprintf("--port=%d", port), "--ssl-cert="+f.dir+"/cert.pem", "--ssl-key="+f.dir+"/key.pem", "--innodb-buffer-pool-size=256M",
			"--log-bin="+data+"/binlog", "--sync-binlog=1")
	} else {
		cmd = f.command("/usr/lib/postgresql/15/bin/postgres", "-D", data, "-k", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
			"-c", "ssl=on", "-c", "ssl_cert_file="+f.dir+"/cert.pem", "-c", "ssl_key_file="+f.dir+"/key.pem", "-c", "shared_buffers=256MB")
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return handServer{cmd, port, socket}
}

// create is one server by hand, from nothing to the first SELECT over TLS.
func (f *floor) create(b *testing.B) time.Duration {
	b.Helper()
	return f.createMany(b, 1)[0]
}

func (f *floor) createMany(b *testing.B, n int) []time.Duration {
	b.Helper()
	took, servers := make([]time.Duration, n), make([]handServer, n)
	first := f.n
	f.n += n
	ports := make([]int, n)
	for i := range ports {
		ports[i] = freePort(b)
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			begun := time.Now()
			data := filepath.Join(f.dir, fmt.Sprint("clone", first+i))
			if out, err := f.command("cp", "-a", "--reflink=auto", filepath.Join(f.dir, "template"), data).CombinedOutput(); err != nil {
				b.Errorf("cp: %v %s", err, out)
				return
			}
			servers[i] = f.start(b, data, ports[i])
			db := f.open(b, ports[i])
			defer db.Close()
			if err := answered(db); err != nil {
				b.Error(err)
				return
			}
			took[i] = time.Since(begun)
		})
	}
	wg.Wait()
	defer func() {
		if b.Failed() {
			b.FailNow() // a time of what wasn't made is none
		}
	}()
	for _, s := range servers {
		if s.cmd != nil {
			s.stop()
		}
	}
	return took
}

func (f *floor) open(b *testing.B, port int) *sql.DB {
	b.Helper()
	unverified := &tls.Config{InsecureSkipVerify: true} // the floor's own certificate
	if f.mysql() {
		c := mysql.NewConfig()
		c.User, c.Passwd, c.Net, c.Addr, c.TLS = "floor", floorPassword, "tcp", fmt.Sprintf("127.0.0.1:%d", port), unverified
		c.Logger = mysql.Logger(discard{})
		connector, err := mysql.NewConnector(c)
		if err != nil {
			b.Fatal(err)
		}
		return sql.OpenDB(connector)
	}
	c, err := pgx.ParseConfig(fmt.Sprintf("host=127.0.0.1 port=%d user=floor dbname=postgres sslmode=require", port))
	if err != nil {
		b.Fatal(err)
	}
	c.Password, c.TLSConfig = floorPassword, unverified
	return stdlib.OpenDB(*c)
}

type discard struct{}

func (discard) Print(...any) {}

// answered returns once the server answers, or why it doesn't in time.
func answered(db *sql.DB) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		var one int
		err := db.QueryRow("SELECT 1").Scan(&one)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func freePort(b *testing.B) int {
	b.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
