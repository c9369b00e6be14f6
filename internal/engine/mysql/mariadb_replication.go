package mysql

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"steward/internal/engine"
)

func (mariaDB) changeSource(n engine.Node) string {
	return fmt.Sprintf("CHANGE MASTER TO master_host = '%s', master_port = %d, master_user = '%s', master_password = '%s', "+
		"master_ssl = 1, master_ssl_ca = %s, master_ssl_verify_server_cert = 1, "+
		"master_use_gtid = slave_pos, master_connect_retry = 1, master_heartbeat_period = 2",
		n.Source.Listen.Addr(), n.Source.Listen.Port(), replicaUser, replicaPassword(n), quote(filepath.Join(n.TLS, engine.TLSCA)))
}

func (mariaDB) abandon(context.Context, *session) error { return nil }

// appliers is how many threads apply what a replica receives.
const appliers = 4

func (mariaDB) replicationSettings(n engine.Node) []setting {
	role := "MASTER"
	if isReplica(n) {
		// A primary that comes back cuts what no replica has acknowledged from its
		// log and its data; what one has it takes back (replies).
		role = "SLAVE"
	}
	return []setting{
		{"init_rpl_role", role, apart},
		{"rpl_semi_sync_master_wait_no_slave", true, live},
		{"rpl_semi_sync_slave_kill_conn_timeout", 1, live},
		{"slave_parallel_threads", appliers, apart},
		{"slave_parallel_mode", "optimistic", apart},
		{"slave_net_timeout", 10, live},
		{"master_retry_count", int64(4294967295), apart},
	}
}

// sequence is the number in a position: 12 in "0-1-12". There is one domain.
func sequence(position string) (uint64, error) {
	var most uint64
	for gtid := range strings.SplitSeq(position, ",") {
		parts := strings.Split(strings.TrimSpace(gtid), "-")
		if parts[0] != "0" {
			continue
		}
		n, err := strconv.ParseUint(parts[len(parts)-1], 10, 64)
		if err != nil || len(parts) != 3 {
			return 0, fmt.Errorf("%q is no position", position)
		}
		most = max(most, n)
	}
	return most, nil
}

// furthest is the one of the positions with the highest number.
func furthest(positions ...string) (string, uint64, error) {
	text, most := "", uint64(0)
	for _, p := range positions {
		n, err := sequence(p)
		if err != nil {
			return "", 0, err
		}
		if n > most {
			text, most = p, n
		}
	}
	return text, most, nil
}

// progress: what a stopped applier has not applied is thrown away when
// it starts again, so it doesn't count.
func (mariaDB) progress(ctx context.Context, s *session, st status) (progress, error) {
	var p progress
	rows, err := s.rows(ctx, "SELECT @@GLOBAL.gtid_slave_pos, @@GLOBAL.gtid_binlog_pos")
	if err != nil {
		return p, err
	}
	replica, binlog := rows[0][0], rows[0][1]
	if !st.applierRuns() {
		p.text, p.applied, err = furthest(replica, binlog)
		p.received = p.applied
		return p, err
	}
	if p.applied, err = sequence(replica); err != nil {
		return p, err
	}
	p.text, p.received, err = furthest(replica, st["Gtid_IO_Pos"])
	return p, err
}

// compatible compares the last transactions. Whether an older one of the
// replica's is its source's too is for the source to say, which it does not of
// one that has the number of its own last.
func (f mariaDB) compatible(ctx context.Context, own, source *session, st status) error {
	position, err := own.text(ctx, "SELECT @@GLOBAL.gtid_binlog_pos")
	if err != nil {
		return err
	}
	mine, err := sequence(position)
	if err != nil {
		return err
	}
	theirs, err := f.progress(ctx, source, st)
	if err != nil {
		return err
	}
	if mine > theirs.received || mine == theirs.received && position != theirs.text {
		return fmt.Errorf("%w: it is at %s, its source at %s", engine.ErrDiverged, position, theirs.text)
	}
	return nil
}

// copyPosition is the file in a copy that says which position it is a copy of.
const copyPosition = "steward.position"

// setPosition: an old primary goes on after its own last transaction, a copy
// after that of the server it was made of. A replica that was killed may have a
// change of a table in its log, and done, without a note that it has applied it.
func (mariaDB) setPosition(ctx context.Context, s *session, n engine.Node) error {
	noted, err := os.ReadFile(filepath.Join(n.Data, copyPosition))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the copy's position: %w", err)
	}
	rows, err := s.rows(ctx, "SELECT @@GLOBAL.gtid_slave_pos, @@GLOBAL.gtid_binlog_pos")
	if err != nil {
		return err
	}
	replica, binlog := rows[0][0], rows[0][1]
	position, _, err := furthest(replica, binlog, strings.TrimSpace(string(noted)))
	if err != nil || position == replica {
		return err
	}
	return s.exec(ctx, "STOP SLAVE", "SET GLOBAL gtid_slave_pos = "+quote(position))
}

// backupProgram copies a running MariaDB.
const backupProgram = "mariadb-backup"

func (mariaDB) baseBackup(ctx context.Context, d *Driver, n engine.Node, dir string, run engine.Runner) error {
	if n.Installation.Bin[backupProgram] == "" {
		return fmt.Errorf("a copy needs the program %s, which is not installed with %s", backupProgram, n.Installation.ID())
	}
	options := filepath.Join(dir, copyOptionsFile)
	if err := writePrivate(dir, options, copyOptions(n)); err != nil {
		return fmt.Errorf("write options of %s: %w", backupProgram, err)
	}
	backup := n.Installation.Program(backupProgram, "--defaults-file="+options, "--backup", "--target-dir="+dir,
		"--parallel=2", "--log-copy-interval=50")
	if err := d.makeRoom(ctx, n); err != nil {
		return err
	}
	err := runBackup(ctx, dir, engine.Process{Argv: backup, Env: environment}, run)
	if err := errors.Join(err, os.Remove(options)); err != nil { // no copy of a node has its password
		return err
	}
	prepare := n.Installation.Program(backupProgram, "--prepare", "--target-dir="+dir)
	if err := runBackup(ctx, dir, engine.Process{Argv: prepare, Env: environment}, run); err != nil {
		return err
	}
	return rememberPosition(dir)
}

// rememberPosition keeps of the program's notes the one that counts.
func rememberPosition(dir string) error {
	notes, err := filepath.Glob(filepath.Join(dir, "*_binlog_info"))
	if err != nil || len(notes) == 0 {
		return errors.Join(err, errors.New("the copy has no note of its position"))
	}
	text, err := os.ReadFile(notes[0])
	if err != nil {
		return err
	}
	// File, offset and position, the last of them missing in an empty history.
	words := strings.Fields(string(text))
	position := ""
	if len(words) > 2 {
		position = words[2]
	}
	if _, err := sequence(position); err != nil {
		return err
	}
	// Readable by the server's user, who isn't us; the folder is closed to others.
	if err := os.WriteFile(filepath.Join(dir, copyPosition), []byte(position+"\n"), 0o644); err != nil {
		return err
	}
	return removeAll(dir, "*_binlog_info", "*_slave_info", "*_galera_info", "*_checkpoints", "*_info", "*_backup_info", "backup-my.cnf")
}

func runBackup(ctx context.Context, dir string, p engine.Process, run engine.Runner) error {
	out, err := run(ctx, dir, p, nil)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", backupProgram, err, lastWords(out))
}
