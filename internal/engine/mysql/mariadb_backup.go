package mysql

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"steward/internal/engine"
)

// copyProgram copies a running MariaDB, streamProgram unpacks the stream it makes.
const (
	copyProgram   = "mariadb-backup"
	streamProgram = "mbstream"
)

func needProgram(inst engine.Installation, name string) error {
	if inst.Bin[name] == "" {
		return fmt.Errorf("backups need the program %s, which is not installed with %s", name, inst.ID())
	}
	return nil
}

// backup hands the password over in a file. The node's own configuration
// tells the program where the data and the keys are.
func (mariaDB) backup(ctx context.Context, d *Driver, n engine.Node, w io.Writer, work string, run engine.Piper) error {
	if err := needProgram(n.Installation, copyProgram); err != nil {
		return err
	}
	options := filepath.Join(work, copyOptionsFile)
	if err := writePrivate(work, options, copyOptions(n)); err != nil {
		return fmt.Errorf("write options of %s: %w", copyProgram, err)
	}
	argv := n.Installation.Program(copyProgram, "--defaults-file="+options, "--backup", "--stream=xbstream",
		"--target-dir="+work, "--tmpdir="+work, copyLogLook)
	politely := func(ctx context.Context, dir string, p engine.Process, in io.Reader, out io.Writer) ([]byte, error) {
		p.Polite = true
		return run(ctx, dir, p, in, out)
	}
	w, done := d.paced(ctx, n, w)
	defer done()
	if err := d.makeRoom(ctx, n); err != nil {
		return err
	}
	bounded, unbound, err := d.boundLocks(ctx, n)
	if err != nil {
		return err
	}
	defer unbound()
	if err := running(bounded, politely, work, argv, nil, w); err != nil {
		if cause := context.Cause(bounded); cause != nil {
			err = errors.Join(cause, err)
		}
		return fmt.Errorf("%s: %w", copyProgram, err)
	}
	return ctx.Err()
}

// copyLogLook is how often, in milliseconds, the program looks for new log. It does
// so once more at the end, while commits wait: its own second is what they, and
// the copy of a small database, would wait for.
const copyLogLook = "--log-copy-interval=20"

// copyOptionsFile holds what the copying program needs to log in. Its name has a
// character that the files of databases and tables never have.
const copyOptionsFile = "steward-copy.cnf"

func copyOptions(n engine.Node) string {
	return fmt.Sprintf("!include %s\n%s", configFile(n), clientOptions("mariadb-backup", n, socketFile(n)))
}

// clientOptions have a program, by its group of options, log in as our own account.
func clientOptions(group string, n engine.Node, socket string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	return fmt.Sprintf("[%s]\nuser = %s\npassword = \"%s\"\nsocket = \"%s\"\n", group, adminUser, escape.Replace(n.AdminPassword), socket)
}

// writePrivate writes a file that only the owner of dir, and root, can read.
func writePrivate(dir, path, content string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := giveLike(dir, path); err != nil {
		return err
	}
	if _, err := f.WriteString(content); err != nil {
		return err
	}
	return f.Close()
}

func (mariaDB) unpack(ctx context.Context, n engine.Node, archive *engine.ArchiveReader, dir string, run engine.Piper) error {
	if err := extractMariaDB(ctx, n, archive, dir, run); err != nil {
		return err
	}
	last, err := notedSequence(dir)
	if err == nil {
		err = forkMariaDB(ctx, n, dir, last, run)
	}
	if err != nil {
		return fmt.Errorf("begin a new history: %w", err)
	}
	return discardNotes(dir)
}

// extractMariaDB makes a data folder of a stream, beside the program's notes.
func extractMariaDB(ctx context.Context, n engine.Node, archive *engine.ArchiveReader, dir string, run engine.Piper) error {
	for _, name := range []string{copyProgram, streamProgram} {
		if err := needProgram(n.Installation, name); err != nil {
			return err
		}
	}
	extract := n.Installation.Program(streamProgram, "-x", "-C", dir)
	if err := running(ctx, run, dir, extract, archive, io.Discard); err != nil {
		return errors.Join(archive.Err(), fmt.Errorf("%s: %w", streamProgram, err))
	}
	if err := archive.Finish(); err != nil {
		return err
	}
	if err := relocate(n, filepath.Join(dir, preparedBy)); err != nil {
		return err
	}
	prepare := n.Installation.Program(copyProgram, "--prepare", "--target-dir="+dir)
	if err := running(ctx, run, dir, prepare, nil, io.Discard); err != nil {
		return fmt.Errorf("%s: %w", copyProgram, err)
	}
	return nil
}

// preparedBy is the program's own note of the server's configuration.
const preparedBy = "backup-my.cnf"

// copyNotes are what the program leaves beside the data, by the prefixes that
// series use. No patterns: a customer's database may fit any.
var (
	notePrefixes = []string{"xtrabackup", "mariadb_backup"}
	copyNotes    = []string{"_binlog_info", "_binlog_pos_innodb", "_checkpoints", "_info", "_slave_info", "_galera_info", "_logfile"}
)

func discardNotes(dir string) error {
	names := []string{preparedBy}
	for _, prefix := range notePrefixes {
		for _, note := range copyNotes {
			names = append(names, prefix+note)
		}
	}
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// relocate makes the note say where this node's keys and plugins are.
func relocate(n engine.Node, note string) error {
	content, err := os.ReadFile(note)
	if err != nil {
		return fmt.Errorf("the stream is no backup: %w", err)
	}
	places := map[string]string{"file_key_management_filename": mariaDBKeyFile(n), "plugin_dir": n.Installation.PluginDir}
	var out bytes.Buffer
	for line := range strings.Lines(string(content)) {
		name, _, _ := strings.Cut(line, "=")
		name = strings.ReplaceAll(strings.TrimSpace(name), "-", "_")
		if place := places[name]; place != "" {
			line = name + "=" + place + "\n"
		}
		out.WriteString(line)
	}
	f, err := os.OpenFile(note, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(out.Bytes()); err != nil {
		return err
	}
	return f.Close()
}

// historyStep is by how much a restored server's transactions are numbered
// higher than those it was restored from. The old history never gets there, so
// a replica of it asks for a number that the restored server's log doesn't have
// and is refused, while the same number would be taken for the same transaction.
const historyStep = 1 << 40

// forkMariaDB writes the position at which the new history begins where a
// replica has the one it got to: a server numbers its own transactions from
// there, and replicas copied from it may go on there. last is the number of the
// copy's last transaction, as far as the tables don't know it.
func forkMariaDB(ctx context.Context, n engine.Node, dir string, last uint64, run engine.Piper) error {
	return bootstrapMariaDB(ctx, n, dir, newHistory(n, last), run)
}

// newHistory are the statements that begin it.
func newHistory(n engine.Node, last uint64) []string {
	var name [16]byte
	rand.Read(name[:])
	return append(goOnAfter(n, last, historyStep),
		"CREATE TABLE IF NOT EXISTS "+archiveIDTable+" (name VARCHAR(64) NOT NULL) ENGINE = InnoDB COMMENT 'The history that the data is of'",
		"DELETE FROM "+archiveIDTable, "INSERT INTO "+archiveIDTable+" VALUES ("+quote(hex.EncodeToString(name[:]))+")")
}

// goOnAfter are the statements that have a server number on after its copy's last
// transaction, with a step between.
func goOnAfter(n engine.Node, last uint64, step int64) []string {
	return []string{
		fmt.Sprintf("SET @last = (SELECT GREATEST(%d, COALESCE(MAX(seq_no), 0)) + %d FROM mysql.gtid_slave_pos WHERE domain_id = 0)", last, step),
		"DELETE FROM mysql.gtid_slave_pos",
		fmt.Sprintf("INSERT INTO mysql.gtid_slave_pos (domain_id, sub_id, server_id, seq_no) SELECT 0, 1, %d, @last FROM DUAL WHERE @last > 0", serverID(n)),
	}
}

// bootstrapMariaDB runs statements in the server's bootstrap mode, which also
// proves that it starts on the data.
func bootstrapMariaDB(ctx context.Context, n engine.Node, dir string, statements []string, run engine.Piper) error {
	argv := n.Installation.Program(mariaDBDialect.server, append(offlineArgs(n, dir), "--bootstrap")...)
	if err := rollBackPrepared(ctx, dir, argv, run); err != nil {
		return err
	}
	return running(ctx, run, dir, argv, strings.NewReader(strings.Join(statements, ";\n")+";\n"), io.Discard)
}

// offlineArgs are those of a server on data that isn't a node's at the time.
func offlineArgs(n engine.Node, dir string) []string {
	args := append([]string{
		"--no-defaults", "--datadir=" + dir, "--tmpdir=" + dir, "--innodb-data-file-path=" + systemTablespace,
		fmt.Sprintf("--innodb-undo-tablespaces=%d", mariaDBUndoFiles), "--innodb-use-native-aio=OFF", "--log-warnings=0",
		fmt.Sprintf("--innodb-log-file-size=%dM", tune(n.Plan).redoMB),
	}, located(n.Installation)...)
	if n.Encrypted {
		settings, _ := mariaDB{}.encryption(n)
		args = append(args, options(settings)...)
	}
	return args
}

// rollBackPrepared: no commit was under way at the end of the copy, so what is
// prepared in it has come into no log and was acknowledged to nobody, but no
// server starts with it. How the program ends says nothing, as some series call
// it an error when all is done; the next start finds what was left.
func rollBackPrepared(ctx context.Context, dir string, argv []string, run engine.Piper) error {
	argv = append(slices.Clone(argv), "--tc-heuristic-recover=ROLLBACK")
	if err := running(ctx, run, dir, argv, strings.NewReader(""), io.Discard); err != nil {
		return ctx.Err()
	}
	return nil
}

// notedSequence is the number of the last transaction in the copy, 0 in an
// empty history. The note holds file, offset and position.
func notedSequence(dir string) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(dir, notePrefixes[0]+"_binlog_info"))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = os.ReadFile(filepath.Join(dir, notePrefixes[1]+"_binlog_info"))
	}
	if err != nil {
		return 0, fmt.Errorf("the copy has no note of its position: %w", err)
	}
	words := strings.Fields(string(text))
	if len(words) < 3 {
		return 0, nil
	}
	return lastSequence(words[2])
}

func lastSequence(position string) (uint64, error) {
	var last uint64
	for gtid := range strings.SplitSeq(position, ",") {
		parts := strings.Split(gtid, "-")
		if len(parts) != 3 {
			return 0, fmt.Errorf("%q is no position", position)
		}
		number, err := strconv.ParseUint(parts[2], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is no position: %w", position, err)
		}
		last = max(last, number)
	}
	return last, nil
}
