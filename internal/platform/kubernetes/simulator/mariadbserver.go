package simulator

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	corev1 "k8s.io/api/core/v1"

	"steward/internal/engine"
	"steward/internal/testdir"
)

// mariaDB is one server, with its Pod and its volume.
type mariaDB struct {
	process
	dir, ip, name string
	build         engine.Installation
	pod           *corev1.Pod
	ready, made   bool
	claimed       bool
	password      string
	// looks counts passes since it was started, and guarded is what it was told last of taking writes.
	looks   int
	guarded string
	// template is what its Pod was made of, and written what its files were last.
	template, written string
	// init is the Pod of the job that is to bring a backup, once that has failed.
	init *corev1.Pod
}

func (s *mariaDB) data() string { return filepath.Join(s.dir, "data") }

// scripts make the system tables, as the image's program does.
var scripts = []string{"mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql", "fill_help_tables.sql", "maria_add_gis_sp_bootstrap.sql", "mysql_sys_schema.sql"}

// initialise makes the data folder as the image's entry point does, unless there is one: once for a build on a machine, but for the password, which the server is
// told when it starts on it first.
func (s *mariaDB) initialise(ctx context.Context, password string) error {
	if s.made {
		return nil
	}
	err := testdir.Prepared(ctx, s.data(), "mariadb-image-"+s.build.ID(), "2", func(dir string) error {
		made, err := testdir.Make("steward-mariadb-init-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(made)
		if err := os.Chown(made, user(), user()); err != nil {
			return err
		}
		input := []byte("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n")
		for _, name := range scripts {
			text, err := os.ReadFile(filepath.Join(s.build.Share, name))
			if err != nil {
				return err
			}
			input = append(append(input, text...), '\n')
		}
		if err := s.bootstrap(ctx, made, input); err != nil {
			return err
		}
		return testdir.Copy(ctx, made, dir)
	})
	if err != nil {
		return err
	}
	accounts := fmt.Sprintf("DELETE FROM mysql.global_priv WHERE User = '' OR User = 'root' AND Host <> 'localhost';\nFLUSH PRIVILEGES;\nCREATE OR REPLACE USER root@'%%' IDENTIFIED BY '%[1]s';\n"+
		"GRANT ALL ON *.* TO root@'%%' WITH GRANT OPTION;\nALTER USER root@localhost IDENTIFIED BY '%[1]s';\n", password)
	if err := os.WriteFile(s.birth(), []byte(accounts), 0o600); err != nil {
		return err
	}
	if err := os.Chown(s.birth(), user(), user()); err != nil {
		return err
	}
	s.made = true
	return nil
}

// birth is what a server is told at its first start, before it lets anybody in. It is gone once that has answered.
func (s *mariaDB) birth() string { return filepath.Join(s.dir, "birth.sql") }

// bootstrap runs SQL in a data folder that no server uses.
func (s *mariaDB) bootstrap(ctx context.Context, dir string, input []byte) error {
	cmd := command(ctx, s.build.Program("mariadbd", append(s.basics(), "--bootstrap", "--datadir="+dir, "--tmpdir="+s.dir, "--log-warnings=0", "--innodb-log-file-size=8M")...)...)
	cmd.Stdin = bytes.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make a data folder: %w: %s", err, last(string(out)))
	}
	return nil
}

// basics are where the programs' own files are, and what every server has.
func (s *mariaDB) basics() []string {
	args := []string{"--no-defaults"}
	if s.build.Share != "" {
		args = append(args, "--lc-messages-dir="+s.build.Share, "--character-sets-dir="+filepath.Join(s.build.Share, "charsets"))
	}
	if s.build.PluginDir != "" {
		args = append(args, "--plugin-dir="+s.build.PluginDir)
	}
	return append(args, "--innodb-use-native-aio=OFF", "--innodb-flush-method=fsync", "--innodb-data-file-path=ibdata1:5M:autoextend")
}

// mounted is the folder that is mounted where an object says.
func (s *mariaDB) mounted() string { return filepath.Join(s.dir, "mounted") }

// write puts the configuration in place, and what volumes have.
func (s *mariaDB) write(t podTemplate) error {
	if s.written == t.whole {
		return nil
	}
	files := map[string][]byte{
		"0-default.cnf": []byte("[mariadb]\nskip-name-resolve\ntemp-pool\nignore_db_dirs = 'lost+found'\n"),
		"1-tls.cnf":     fmt.Appendf(nil, "[mariadb]\nssl_cert = %[1]s/tls.crt\nssl_key = %[1]s/tls.key\nssl_ca = %[1]s/ca.crt\nrequire_secure_transport = false\ntls_version = TLSv1.3\n", s.dir),
		"my.cnf":        []byte(strings.ReplaceAll(t.config, mountPath, s.mounted())),
		"ca.crt":        t.ca,
	}
	files["all.cnf"] = fmt.Appendf(nil, "!include %[1]s/0-default.cnf\n!include %[1]s/1-tls.cnf\n!include %[1]s/my.cnf\n", s.dir)
	maps.Copy(files, t.tls)
	for name, content := range t.files {
		files[filepath.Join("mounted", name)] = bytes.ReplaceAll(content, []byte(mountPath), []byte(s.mounted()))
	}
	if err := os.MkdirAll(s.mounted(), 0o755); err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(s.dir, name)
		if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, content) {
			continue
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
		if err := os.Chown(path, user(), user()); err != nil {
			return err
		}
	}
	s.written = t.whole
	return nil
}

// mountPath is where volumes are in containers.
const mountPath = "/etc/steward"

// due reports whether a server is asked in a pass.
func (s *mariaDB) due() bool { return !s.ready || s.looks%restful == 0 }

func (s *mariaDB) start() error {
	s.looks, s.guarded = 0, ""
	argv := s.build.Program("mariadbd", append([]string{"--defaults-file=" + filepath.Join(s.dir, "all.cnf")}, append(s.basics()[1:],
		"--datadir="+s.data(), "--tmpdir="+s.dir, "--socket="+filepath.Join(s.dir, "sock"), "--pid-file="+filepath.Join(s.dir, "pid"),
		"--bind-address="+s.ip, "--port=3306")...)...)
	if _, err := os.Stat(s.birth()); err == nil {
		argv = append(argv, "--init-file="+s.birth())
	}
	return s.launch(filepath.Join(s.dir, "log"), argv...)
}

// sql runs a statement as the operator does, and returns the first value of its answer.
func (s *mariaDB) sql(ctx context.Context, statement string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.Logger = "root", s.password, "unix", filepath.Join(s.dir, "sock"), &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return "", err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	if !strings.HasPrefix(statement, "SELECT") {
		_, err := db.ExecContext(ctx, statement)
		return "", err
	}
	var text string
	err = db.QueryRowContext(ctx, statement).Scan(&text)
	return text, err
}
