package simulator

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
	hostprocess "steward/internal/process"
	"steward/internal/testdir"
)

// user is who servers run as: PostgreSQL refuses root.
func user() int {
	if os.Getuid() == 0 {
		return 65534
	}
	return os.Getuid()
}

// server is a PostgreSQL server, as the operator's instance manager keeps it.
type server struct {
	dir, ip string
	build   engine.Installation
	process
	// config is what the server has read last.
	config string
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

// command runs a program as the servers' user.
func command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(user()), Gid: uint32(user())}
	}
	return cmd
}

// initialise makes the data folder as the operator's job does, once for a build on a machine.
func (s *server) initialise(ctx context.Context) error {
	return testdir.Prepared(ctx, s.data(), "cnpg-"+s.build.ID(), "3", func(dir string) error {
		// The folder's parents are closed to the user.
		made, err := testdir.Make("steward-initdb-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(made)
		if err := os.Chown(made, user(), user()); err != nil {
			return err
		}
		cmd := command(ctx, s.build.Program("initdb", "-D", filepath.Join(made, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "-N", "-k",
			"--lc-collate=C", "--lc-ctype=C.UTF-8", "--wal-segsize=1")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("initdb: %w: %s", err, out)
		}
		return testdir.Copy(ctx, filepath.Join(made, "data"), dir)
	})
}

// write puts the configuration in place and reports whether it is another one.
func (s *server) write(settings map[string]string, access []string, tls map[string][]byte) (changed bool, err error) {
	var b strings.Builder
	all := map[string]string{
		"listen_addresses": s.ip, "port": "5432", "unix_socket_directories": s.dir, "fsync": "off", "ssl": "on",
		"ssl_cert_file": filepath.Join(s.dir, "tls.crt"), "ssl_key_file": filepath.Join(s.dir, "tls.key"), "hot_standby": "on", "wal_keep_size": "64MB",
		"hba_file": filepath.Join(s.dir, "pg_hba.conf"), "restart_after_crash": "off",
	}
	maps.Copy(all, s.logging())
	maps.Copy(all, settings)
	for name, value := range all {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.NewReplacer(`'`, `''`, `\`, `\\`).Replace(value))
	}
	// As the operator has them: its own first, and one for everybody last.
	hba := "local all all trust\nhost all streaming_replica 127.0.0.0/8 trust\nhost replication streaming_replica 127.0.0.0/8 trust\n" +
		strings.Join(access, "\n") + "\nhost all all all scram-sha-256\n"
	config := digest(all) + hba + string(tls["tls.crt"])
	if config == s.config {
		return false, nil
	}
	files := map[string][]byte{"postgresql.conf": []byte(b.String()), "pg_hba.conf": []byte(hba)}
	maps.Copy(files, tls)
	for name, content := range files {
		path := filepath.Join(s.dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return false, err
		}
		if err := os.Chown(path, user(), user()); err != nil {
			return false, err
		}
	}
	s.config = config
	return true, nil
}

// start starts the server; it ends with the test's process, however that ends.
func (s *server) start() error {
	return s.launch(filepath.Join(s.dir, "log"), s.build.Program("postgres", "-D", s.data(), "-c", "config_file="+filepath.Join(s.dir, "postgresql.conf"))...)
}

// stop is process.stop, but that a container ends as a whole: what a server that is killed has begun would else live a moment longer, and hold
// its memory and its port, so that the next one ends at once.
func (s *server) stop(how syscall.Signal) {
	s.process.stop(how)
	if how == syscall.SIGKILL {
		_ = hostprocess.KillAll(context.Background(), s.processes(), nil) // what is left has the next start fail, which is tried again
	}
}

// processes are the server's and those that it has begun, all of which work in its data folder.
func (s *server) processes() hostprocess.Identity { return hostprocess.Identity{Dir: s.data()} }

func (s *server) reload() { _ = syscall.Kill(s.pid, syscall.SIGHUP) } // one that has ended reads all when it starts

// session is one as the operator has it: by the socket, as postgres.
func (s *server) session(ctx context.Context, database string) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig("host=" + s.dir + " user=postgres sslmode=disable dbname=" + database)
	if err != nil {
		return nil, err
	}
	return pgconn.ConnectConfig(ctx, config)
}

// sql runs statements in a session of their own.
func (s *server) sql(ctx context.Context, database, statements string) ([][]string, error) {
	conn, err := s.session(ctx, database)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	return run(ctx, conn, statements)
}

// run runs statements, and returns what the last of them answers.
func run(ctx context.Context, conn *pgconn.PgConn, statements string) ([][]string, error) {
	results, err := conn.Exec(ctx, statements).ReadAll()
	if err != nil || len(results) == 0 {
		return nil, err
	}
	var rows [][]string
	for _, row := range results[len(results)-1].Rows {
		var texts []string
		for _, v := range row {
			texts = append(texts, string(v))
		}
		rows = append(rows, texts)
	}
	return rows, nil
}

// clone makes s a replica's server with a copy of the data of primary, which runs.
func (s *server) clone(ctx context.Context, primary *server) error {
	conn, err := primary.session(ctx, "postgres")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "SELECT pg_backup_start('clone', true)").ReadAll(); err != nil {
		return err
	}
	// Files may go while they are copied.
	out, err := exec.CommandContext(ctx, "cp", "-a", primary.data(), s.data()).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "No such file") {
		return fmt.Errorf("copy data: %w: %s", err, out)
	}
	results, err := conn.Exec(ctx, "SELECT labelfile FROM pg_backup_stop(false)").ReadAll()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"backup_label": results[0].Rows[0][0], "standby.signal": nil} {
		path := filepath.Join(s.data(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
		if err := os.Chown(path, user(), user()); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(s.data(), "postmaster.pid"))
}

// newServer has a folder of its own below dir.
func newServer(dir, name, ip string, build engine.Installation) (*server, error) {
	s := &server{dir: filepath.Join(dir, name), ip: ip, build: build}
	if err := os.MkdirAll(s.dir, 0o711); err != nil {
		return nil, err
	}
	return s, os.Chown(s.dir, user(), user())
}

// servers counts those of this process, whoever looks after them.
var servers atomic.Int64

// nextAddress is a loopback address of this process's own, and of no server that was made lately.
func nextAddress() string {
	pid := os.Getpid()
	return "127." + strconv.Itoa(64+pid%128) + "." + strconv.Itoa(pid/128%256) + "." + strconv.FormatInt(1+servers.Add(1)%254, 10)
}

// followAgain makes a primary that was stopped cleanly a replica when it is started next.
func (op *Operator) followAgain(i *instance) error {
	path := filepath.Join(i.data(), "standby.signal")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	i.follows = true
	return os.Chown(path, user(), user())
}

// mayFollow reports whether a server may start: one that was the primary only once the one that is now lets the operator's role look into the
// database postgres, as pg_rewind has to. 1.30 tries for ever.
func (op *Operator) mayFollow(ctx context.Context, all *instances, i *instance) bool {
	primary := all.all[all.primary]
	if !i.follows || primary == nil || primary == i {
		return true
	}
	config, err := pgconn.ParseConfig("host=" + primary.ip + " port=5432 user=streaming_replica sslmode=disable dbname=postgres")
	if err != nil {
		return false
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return false
	}
	_ = conn.Close(ctx) // it was let in
	i.follows = false
	return true
}
