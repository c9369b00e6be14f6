package mysql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"steward/internal/durable"
	"steward/internal/engine"
)

// What was archived is done by the server as a replica would: it finds it where
// it keeps what it has received, and has nobody to receive more from.

// portionMost is how much of it lies there at a time, unless one segment is more.
const portionMost = 64 << 20

// UnpackToRecover implements engine.ContinuousArchiver.
func (d *Driver) UnpackToRecover(ctx context.Context, n engine.Node, r io.Reader, dir string, run engine.Piper) error {
	archive := engine.NewArchiveReader(r)
	if err := flavourOf(n.Installation.Flavour).unpackToRecover(ctx, n, archive, dir, run); err != nil {
		return fmt.Errorf("unpack backup: %w", err)
	}
	return nil
}

// Prunable implements engine.ContinuousArchiver.
func (d *Driver) Prunable(string) bool { return true }

// StartNewArchive implements engine.ContinuousArchiver.
func (d *Driver) StartNewArchive(ctx context.Context, n engine.Node, dir string, run engine.Piper) error {
	err := flavourOf(n.Installation.Flavour).startNewArchive(ctx, n, dir, run)
	if err == nil {
		err = d.RegenerateIdentity(ctx, dir)
	}
	if err == nil {
		err = durable.SyncFileSystem(dir)
	}
	if err != nil {
		return fmt.Errorf("start new archive: %w", err)
	}
	return nil
}

// recovering changes the settings of a server that recovers: it writes no log of
// what it does, and nobody but us gets at it.
func recovering(n engine.Node, all []setting) []setting {
	var kept []setting
	for _, s := range all {
		switch s.name {
		case "log_bin", "sync_binlog", "event_scheduler", "relay_log_recovery", "innodb_flush_log_at_trx_commit":
		default:
			kept = append(kept, s)
		}
	}
	return append(kept,
		setting{"skip_log_bin", true, apart},
		setting{"skip_networking", true, apart},
		setting{"event_scheduler", false, apart},
		// What is lost by a crash is done again.
		setting{"innodb_flush_log_at_trx_commit", 0, apart},
		setting{"relay_log", filepath.Join(relayFolder(n), relayPrefix), apart},
		setting{"max_relay_log_size", 1 << 30, apart})
}

const relayPrefix = "relay"

// relayFolder is where the server finds what it has to do. What is encrypted at
// rest isn't there, so that it is in memory for such.
func relayFolder(n engine.Node) string {
	if n.Encrypted {
		return n.Keys
	}
	return n.Recovery.RestoreDir
}

// Recover implements engine.ContinuousArchiver: the server runs, and does what was
// archived.
func (d *Driver) Recover(ctx context.Context, n engine.Node, from engine.ArchiveSource, start func(context.Context, engine.Node) error) (reached time.Time, err error) {
	if err := start(ctx, n); err != nil {
		return reached, err
	}
	s, err := d.admin(ctx, n)
	if err != nil {
		return reached, err
	}
	defer s.close()
	r := &replay{n: n, s: s, f: flavourOf(n.Installation.Flavour), from: from}
	if reached, err = r.run(ctx); err != nil {
		return reached, fmt.Errorf("replay what was archived: %w", err)
	}
	return reached, nil
}

// replay has a server do what was archived, a portion after the other.
type replay struct {
	n         engine.Node
	s         *session
	f         flavour
	from      engine.ArchiveSource
	archiveID string
	segments  []segment
	filter    filter
	// portions counts them.
	portions int
}

func (r *replay) run(ctx context.Context) (reached time.Time, err error) {
	// The copy of a replica still knows its source.
	if err := r.s.exec(ctx, r.f.dialect().reset); err != nil {
		return reached, err
	}
	if r.archiveID, err = r.f.archiveID(ctx, r.s); err != nil {
		return reached, err
	}
	names, err := r.from.Names(ctx, r.archiveID)
	if err != nil {
		return reached, err
	}
	if r.segments, err = parseSegments(names); err != nil {
		return reached, err
	}
	at, err := r.f.position(ctx, r.s)
	if err != nil {
		return reached, err
	}
	r.filter = filter{read: r.f.readTransaction, at: at, target: r.n.Recovery.Until}
	if r.filter.target.IsZero() {
		r.filter.target = time.Unix(1<<40, 0)
	}
	for more := true; more; {
		if more, err = r.portion(ctx); err != nil {
			return reached, err
		}
	}
	if r.filter.beyond {
		return r.n.Recovery.Until, nil
	}
	return r.filter.last, nil
}

// portion prepares some segments and has the server do them. more reports whether it may
// not have been the last.
func (r *replay) portion(ctx context.Context) (more bool, err error) {
	r.portions++
	var files []string
	size := int64(0)
	for more = true; more && size < portionMost; {
		p, until, found, err := following(r.segments, r.filter.at.transactions())
		if err != nil {
			return false, err
		}
		if !found {
			more = false
			break
		}
		file := filepath.Join(relayFolder(r.n), fmt.Sprintf("%s-%s.%06d", relayPrefix, r.channel(), len(files)+1))
		taken, written, err := r.fetch(ctx, p, until, file)
		if err != nil {
			return false, err
		}
		if taken > 0 {
			files, size = append(files, file), size+written
		} else if err := os.Remove(file); err != nil {
			return false, err
		}
		more = !r.filter.beyond
	}
	if len(files) == 0 {
		return more, nil
	}
	return more, r.do(ctx, files)
}

func (r *replay) channel() string { return fmt.Sprintf("p%d", r.portions) }

// fetch writes what is wanted of a segment to a file of the server's user.
func (r *replay) fetch(ctx context.Context, p segment, until uint64, file string) (taken int, written int64, err error) {
	err = engine.FetchPatiently(ctx, func() error {
		next := r.filter
		next.at = next.at.clone()
		if taken, written, err = r.fetchOnce(ctx, &next, p, until, file); err == nil {
			r.filter = next
		}
		return err
	})
	return taken, written, err
}

func (r *replay) fetchOnce(ctx context.Context, x *filter, p segment, until uint64, file string) (taken int, written int64, err error) {
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, 0, err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	if err := giveLike(relayFolder(r.n), file); err != nil {
		return 0, 0, err
	}
	in, out := io.Pipe()
	fetched := make(chan error, 1)
	go func() {
		there, err := r.from.Fetch(ctx, r.archiveID, p.String(), out)
		if err == nil && !there {
			err = fmt.Errorf("%v has gone: %w", p, engine.ErrGap)
		}
		out.CloseWithError(err)
		fetched <- err
	}()
	taken, err = x.copy(p, until, in, f)
	if err == nil && !x.beyond {
		// The archive's own check comes at its end.
		_, err = io.Copy(io.Discard, in)
	}
	in.CloseWithError(errEnough)
	// How the reading of what isn't wanted ended doesn't matter.
	if cause := <-fetched; cause != nil && !x.beyond && !errors.Is(cause, errEnough) {
		err = errors.Join(cause, err)
	}
	if err != nil {
		return 0, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	return taken, info.Size(), f.Close()
}

var errEnough = errors.New("the point in time was reached")

// do has the server do what is in the files, and compares how far it got with how
// far they go.
func (r *replay) do(ctx context.Context, files []string) error {
	index := filepath.Join(relayFolder(r.n), fmt.Sprintf("%s-%s.index", relayPrefix, r.channel()))
	if err := writePrivate(relayFolder(r.n), index, strings.Join(files, "\n")+"\n"); err != nil {
		return fmt.Errorf("list a portion: %w", err)
	}
	say := func(statement string) string {
		return strings.NewReplacer("{channel}", quote(r.channel()), "{file}", quote(filepath.Base(files[0]))).Replace(statement)
	}
	words := r.f.dialect().replay
	if err := r.s.exec(ctx, say(words.change), say(words.start)); err != nil {
		return err
	}
	if err := r.await(ctx); err != nil {
		return err
	}
	return r.s.exec(ctx, say(words.stop), say(words.reset))
}

func (r *replay) await(ctx context.Context) error {
	for {
		now, err := r.f.position(ctx, r.s)
		if err != nil || now.transactions() >= r.filter.at.transactions() {
			if err == nil && now.String() != r.filter.at.String() {
				err = fmt.Errorf("the server is at %v, not at %v", now, r.filter.at)
			}
			return err
		}
		st, err := r.s.status(ctx, r.f)
		if err != nil {
			return err
		}
		if !st.applierRuns() {
			return fmt.Errorf("%w at %v, before %v: %s", errStopped, now, r.filter.at, st["Last_SQL_Error"])
		}
		if err := pause(ctx, "do what was archived"); err != nil {
			return err
		}
	}
}
