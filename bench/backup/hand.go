package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"steward/bench/command"
)

const pgBin = "/usr/lib/postgresql/15/bin"

// hand is the floor: a server by hand, backed up by a pipeline of its own tool,
// zstd and age, and restored by the same the other way round.
type hand struct {
	*tools
	family string
	server *node
	// restored is the server of the last restore, until it is tidied.
	restored *node
	key      string
	// What differs between the families.
	command func(data string, port int) []string
	copy    string
	extract string
	// replica is the command for a copy that a replica could start with, in $DATA.
	replica string
	prepare string
	stop    syscall.Signal
}

// node is a server process and how to reach it.
type node struct {
	hand *hand
	data string
	port int
	cmd  *exec.Cmd
}

func startPostgreSQL(ctx context.Context) (*hand, error) {
	t, err := newTools("postgres")
	if err != nil {
		return nil, err
	}
	h := &hand{tools: t, family: "postgresql", stop: syscall.SIGQUIT}
	h.command = func(data string, port int) []string {
		return []string{
			pgBin + "/postgres", "-D", data, "-k", data, "-p", fmt.Sprint(port), "-c", "listen_addresses=", "-c", "shared_buffers=1GB",
			"-c", "max_wal_size=4GB", "-c", "archive_mode=" + map[bool]string{true: "on", false: "off"}[data == h.path("data")],
			"-c", "archive_command=" + h.path("pgbackrest.sh") + " %p",
		}
	}
	h.copy = pgBin + "/pg_basebackup -h $DATA -p $PORT -U bench -Ft -X fetch -c fast -D -"
	h.extract = "tar -C $DATA -xf -"
	h.replica = pgBin + "/pg_basebackup -h " + h.path("data") + " -p $PORT -U bench -X stream -c fast -D $DATA"
	if err := os.WriteFile(h.path("pgbackrest.sh"), []byte("#!/bin/sh\n[ ! -e "+h.path("pgbackrest.conf")+" ] || exec "+
		strings.Join(backRest(h.path("pgbackrest.conf")), " ")+" archive-push \"$1\"\n"), 0o755); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	if err := h.run(ctx, pgBin+"/initdb", "-N", "-k", "-U", "bench", "--locale=C.UTF-8", "-A", "trust", "-D", h.path("data")); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h.begin(ctx)
}

func startMariaDB(ctx context.Context) (*hand, error) {
	t, err := newTools("mysql")
	if err != nil {
		return nil, err
	}
	h := &hand{tools: t, family: "mysql", stop: syscall.SIGKILL}
	h.command = func(data string, port int) []string {
		return []string{
			"/usr/sbin/mariadbd", "--no-defaults", "--datadir=" + data, "--socket=" + filepath.Join(data, "s"), "--skip-networking",
			fmt.Sprintf("--port=%d", port), "--innodb-buffer-pool-size=2G", "--innodb-log-file-size=512M", "--log-bin=binlog", "--sync-binlog=1",
			"--max-allowed-packet=16M",
		}
	}
	h.copy = "mariabackup --no-defaults --backup --stream=xbstream --user=root --socket=$DATA/s --datadir=$DATA --target-dir=$SPOOL 2>$SPOOL/log"
	h.extract = "mbstream -x -C $DATA"
	h.replica = "mariabackup --no-defaults --backup --user=root --socket=" + h.path("data") + "/s --datadir=" + h.path("data") +
		" --target-dir=$DATA 2>$SPOOL/log; mariabackup --prepare --target-dir=$DATA 2>$SPOOL/log; sync -f $DATA"
	h.prepare = "mariabackup --prepare --target-dir=$DATA 2>$SPOOL/log"
	err = h.run(ctx, "mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--datadir="+h.path("data"))
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h.begin(ctx)
}

func (h *hand) path(name string) string { return filepath.Join(h.dir, name) }

// begin starts the server and makes the key.
func (h *hand) begin(ctx context.Context) (*hand, error) {
	err := h.run(ctx, "age-keygen", "-o", h.path("key"))
	if err == nil {
		h.server, err = h.startNode(ctx, h.path("data"))
	}
	if err == nil && h.family == "mysql" {
		err = h.server.exec(ctx, "CREATE DATABASE bench")
	}
	if err == nil {
		var text []byte
		text, err = os.ReadFile(h.path("key"))
		_, h.key, _ = strings.Cut(string(text), "public key: ")
		h.key, _, _ = strings.Cut(h.key, "\n")
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *hand) startNode(ctx context.Context, data string) (*node, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	n := &node{hand: h, data: data, port: port}
	argv := h.command(data, port)
	if n.cmd, err = h.start(argv[0], argv[1:]...); err != nil {
		return nil, err
	}
	return n, command.Until(ctx, 5*time.Millisecond, func() error { return n.exec(ctx, "SELECT 1") })
}

func (n *node) end() {
	_ = n.cmd.Process.Signal(n.hand.stop)
	_ = n.cmd.Wait()
}

func (n *node) engine() string { return n.hand.family }

func (n *node) open() (*sql.DB, error) {
	if n.hand.family == "postgresql" {
		c, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=bench dbname=postgres", n.data, n.port))
		if err != nil {
			return nil, err
		}
		return stdlib.OpenDB(*c), nil
	}
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.Logger = "root", "unix", filepath.Join(n.data, "s"), silent{}
	if _, err := os.Stat(filepath.Join(n.data, "bench")); err == nil {
		c.DBName = "bench"
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

type silent struct{}

func (silent) Print(...any) {}

func (n *node) exec(ctx context.Context, statement string) error {
	db, err := n.open()
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}

func (n *node) quiet(ctx context.Context) error {
	if n.hand.family == "postgresql" {
		return n.exec(ctx, "CHECKPOINT")
	}
	return n.exec(ctx, "FLUSH TABLES")
}

func (n *node) size(ctx context.Context) (int64, error) { return sizeOf(ctx, n) }

func sizeOf(ctx context.Context, s Server) (int64, error) {
	db, err := s.open()
	if err != nil {
		return 0, err
	}
	defer db.Close()
	query := "SELECT pg_database_size(current_database())"
	if s.engine() == "mysql" {
		query = "SELECT CAST(SUM(data_length + index_length) AS SIGNED) FROM information_schema.tables WHERE table_schema = database()"
	}
	var bytes int64
	return bytes, db.QueryRowContext(ctx, query).Scan(&bytes)
}

// Name implements Target.
func (*hand) Name() string { return floorName }

// Server implements Target.
func (h *hand) Server() Server { return h.server }

// line fills in a pipeline's places.
func (h *hand) line(text string, n *node) string {
	return strings.NewReplacer("$DATA", n.data, "$PORT", fmt.Sprint(n.port), "$SPOOL", h.path("spool")).Replace(text)
}

// Backup implements Target. sync is what steward does at its end as well.
func (h *hand) Backup(ctx context.Context) error {
	line := fmt.Sprintf("rm -rf $SPOOL; mkdir $SPOOL; "+h.copy+" | zstd -q -3 -T2 | age -r %s >%[2]s; sync %[2]s", h.key, h.path("backup"))
	return h.pipeline(ctx, h.line(line, h.server))
}

// Stored implements Target.
func (h *hand) Stored() (int64, error) {
	info, err := os.Stat(h.path("backup"))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Restore implements Target. It is on the disk before the server starts on it.
func (h *hand) Restore(ctx context.Context) error {
	to := &node{hand: h, data: h.path("restored")}
	line := fmt.Sprintf("mkdir -m 700 $DATA; rm -rf $SPOOL; mkdir $SPOOL; age -d -i %s %s | zstd -q -d | %s", h.path("key"), h.path("backup"), h.extract)
	if h.prepare != "" {
		line += "; " + h.prepare
	}
	if err := h.pipeline(ctx, h.line(line+"; sync -f $DATA", to)); err != nil {
		return err
	}
	var err error
	h.restored, err = h.startNode(ctx, to.data)
	return err
}

// Restored implements Target.
func (h *hand) Restored() Server { return h.restored }

// Tidy implements Target.
func (h *hand) Tidy() error {
	if h.restored == nil {
		return nil
	}
	h.cpu += cpuOf(h.restored.cmd.Process.Pid) // what it has used it goes on having used
	h.restored.end()
	data := h.restored.data
	h.restored = nil
	return os.RemoveAll(data)
}

// CPU implements Target.
func (h *hand) CPU() float64 {
	used := h.cpu + cpuOf(h.server.cmd.Process.Pid)
	if h.restored != nil {
		used += cpuOf(h.restored.cmd.Process.Pid)
	}
	return used
}

// Peak implements Target.
func (*hand) Peak() int64 { return 0 }

// Close implements Target.
func (h *hand) Close() error {
	err := h.Tidy()
	if h.server != nil {
		h.server.end()
	}
	return errors.Join(err, os.RemoveAll(h.dir))
}
