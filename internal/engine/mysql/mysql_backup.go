package mysql

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"steward/internal/engine"
)

// backup has the server clone itself into the work folder, the one way to a copy of
// a running MySQL that the server itself brings, and passes that on.
func (mySQL) backup(ctx context.Context, d *Driver, n engine.Node, w io.Writer, work string, _ engine.Piper) error {
	clone := filepath.Join(work, "clone") // the server insists on making it
	if err := d.clone(ctx, n, clone); err != nil {
		return err
	}
	return engine.Tar(ctx, w, clone)
}

func (d *Driver) clone(ctx context.Context, n engine.Node, to string) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	unload, err := s.loadClone(ctx)
	if err != nil {
		return fmt.Errorf("load the clone plugin: %w", err)
	}
	err = d.execKillable(ctx, n, s, "CLONE LOCAL DATA DIRECTORY = "+quote(to))
	return errors.Join(err, unload())
}

// loadClone loads the plugin where the configuration doesn't, and for as long
// only as it takes.
func (s *session) loadClone(ctx context.Context) (unload func() error, err error) {
	loaded, err := s.text(ctx, "SELECT COUNT(*) FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'clone'")
	if err != nil {
		return nil, err
	}
	if loaded != "0" {
		return func() error { return nil }, nil
	}
	if err := s.exec(ctx, "INSTALL PLUGIN clone SONAME 'mysql_clone.so'"); err != nil {
		return nil, err
	}
	return func() error { return s.exec(context.WithoutCancel(ctx), "UNINSTALL PLUGIN clone") }, nil
}

// killAgain is how often a statement is killed until it ends: one that hasn't
// begun yet takes no notice.
const killAgain = 50 * time.Millisecond

// execKillable ends the statement itself when the context does. The server
// would go on with it if only the connection went away.
func (d *Driver) execKillable(ctx context.Context, n engine.Node, s *session, statement string) error {
	id, err := s.text(ctx, "SELECT CONNECTION_ID()")
	if err != nil {
		return err
	}
	var answer error
	ended, whole := make(chan struct{}), context.WithoutCancel(ctx)
	go func() {
		defer close(ended)
		answer = s.exec(whole, statement)
	}()
	select {
	case <-ended:
		return answer
	case <-ctx.Done():
	}
	err = d.killUntil(whole, n, "KILL QUERY "+id, ended)
	<-ended
	return errors.Join(ctx.Err(), err, answer)
}

func (d *Driver) killUntil(ctx context.Context, n engine.Node, kill string, ended <-chan struct{}) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	for {
		if err := s.exec(ctx, kill); err != nil {
			return err
		}
		select {
		case <-ended:
			return nil
		case <-time.After(killAgain):
		}
	}
}

func (mySQL) unpack(ctx context.Context, n engine.Node, archive *engine.ArchiveReader, dir string, run engine.Piper) error {
	if err := extractMySQL(archive, dir); err != nil {
		return err
	}
	if err := forkMySQL(ctx, n, dir, run); err != nil {
		return fmt.Errorf("begin a new history: %w", err)
	}
	return nil
}

func extractMySQL(archive *engine.ArchiveReader, dir string) error {
	if err := engine.Untar(archive, dir); err != nil {
		return err
	}
	if err := archive.Finish(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, controlFile)); err != nil {
		return fmt.Errorf("the stream is no backup: %w", err)
	}
	return nil
}

// firstSteps is run by a server on the copy when it starts. The copy of a
// replica has the replica's source in its tables.
//
// The transaction that is said to have been is the new history's mark: who was
// copied from here has it too. Who wasn't would have to fetch it, which nobody
// can. The server's new uuid alone keeps no replica of the old history from
// following: a source misses only transactions under its own uuid.
func firstSteps() string {
	var mark [16]byte
	copy(mark[:], archiveIDMark)
	rand.Read(mark[len(archiveIDMark):])
	uuid := fmt.Sprintf("%x-%x-%x-%x-%x", mark[:4], mark[4:6], mark[6:8], mark[8:10], mark[10:])
	return "RESET REPLICA ALL;\nSET GLOBAL gtid_purged = '+" + uuid + ":1';\nSHUTDOWN;\n"
}

// forkMySQL starts the server with nobody able to log in, which also proves
// that it starts on the data.
func forkMySQL(ctx context.Context, n engine.Node, dir string, run engine.Piper) error {
	if err := writePrivate(dir, filepath.Join(dir, initFile), firstSteps()); err != nil {
		return err
	}
	args := append([]string{
		"--no-defaults", "--datadir=" + dir, "--tmpdir=" + dir, "--init-file=" + filepath.Join(dir, initFile),
		// Relative to the data: an absolute path may be too long for a socket.
		"--skip-networking", "--socket=.steward.sock", "--pid-file=steward.pid", "--secure-file-priv=NULL",
		"--mysqlx=OFF", "--skip-log-bin", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--skip-replica-start",
		"--event-scheduler=OFF", "--auto-generate-certs=OFF", "--caching-sha2-password-auto-generate-rsa-keys=OFF",
		"--innodb-data-file-path=" + systemTablespace, "--innodb-use-native-aio=OFF", "--performance-schema=OFF",
		fmt.Sprintf("--innodb-buffer-pool-size=%dM", tune(n.Plan).poolMB),
		fmt.Sprintf("--innodb-redo-log-capacity=%dM", tune(n.Plan).redoMB),
	}, located(n.Installation)...)
	if n.Encrypted {
		n.Data = dir
		settings, files := mySQL{}.encryption(n)
		args = append(args, options(settings)...)
		for _, f := range files {
			if filepath.Dir(f.Path) != dir {
				continue // the keyring is the platform's to bring
			}
			if err := writePrivate(dir, f.Path, string(f.Content)); err != nil {
				return err
			}
		}
	}
	argv := n.Installation.Program(mySQLDialect.server, args...)
	return running(ctx, run, dir, argv, strings.NewReader(""), io.Discard)
}
