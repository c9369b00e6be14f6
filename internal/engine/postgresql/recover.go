package postgresql

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"steward/internal/durable"
	"steward/internal/engine"
)

// recoverySignal in Node.Data makes a server recover from an archive.
const recoverySignal = "recovery.signal"

// UnpackToRecover implements engine.ContinuousArchiver. It leaves the copy's system
// identifier as it is, since the server takes only WAL of the same. The identifier is
// the archive ID, too: a restore in place begins a new one, whose segments have the
// names of the old.
func (Driver) UnpackToRecover(_ context.Context, _ engine.Node, r io.Reader, dir string, _ engine.Piper) error {
	if err := unpack(r, dir); err != nil {
		return fmt.Errorf("unpack backup: %w", err)
	}
	if err := durable.SyncFileSystem(dir); err != nil {
		return fmt.Errorf("unpack backup: %w", err)
	}
	return nil
}

// recovery is a server that goes on from a copy with what was archived.
type recovery struct {
	node  engine.Node
	from  engine.ArchiveSource
	start func(context.Context, engine.Node) error
	// archiveID is that of the copy.
	archiveID string
	restore   *restoreDirectory
	// archived is what the archive held when the recovery began.
	archived []string
	// endedEarly reports whether the archive ended before the point in time.
	endedEarly bool
}

// Recover implements engine.ContinuousArchiver: the server recovers while it starts,
// and asks for what it needs in the restore directory.
func (Driver) Recover(ctx context.Context, n engine.Node, from engine.ArchiveSource, start func(context.Context, engine.Node) error) (reached time.Time, err error) {
	v := &recovery{node: n, from: from, start: start}
	if err := v.prepare(ctx); err != nil {
		return reached, fmt.Errorf("recover: %w", err)
	}
	served, stop := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := v.restore.serve(served); err != nil {
			stop(err)
		}
	}()
	reached, err = v.replay(served)
	cause := context.Cause(served)
	stop(nil)
	<-ended
	if err != nil {
		return reached, errors.Join(err, cause)
	}
	return reached, v.checkGap()
}

// prepare reads from the copy what it is of, and how far it goes, and lists what there is to go on with.
func (v *recovery) prepare(ctx context.Context) error {
	control, err := readControl(controlPath(v.node.Data))
	if err != nil {
		return err
	}
	id := control.identity().id
	v.archiveID = archiveIDOf(id[:])
	first, err := lastSegment(filepath.Join(v.node.Data, "pg_wal"))
	if err != nil {
		return err
	}
	v.restore = &restoreDirectory{
		path: v.node.Recovery.RestoreDir, furthest: first,
		fetch: func(ctx context.Context, name string, out io.Writer) (bool, error) {
			return v.from.Fetch(ctx, v.archiveID, name, out)
		},
	}
	return engine.FetchPatiently(ctx, func() (err error) {
		v.archived, err = v.from.Names(ctx, v.archiveID)
		return err
	})
}

// replay makes the server recover to the point in time, or else to the last change.
func (v *recovery) replay(ctx context.Context) (time.Time, error) {
	n := v.node
	err := v.start(ctx, n)
	if err != nil && ctx.Err() == nil && endedEarly(err) {
		v.endedEarly = true
		n.Recovery = &engine.Recovery{RestoreDir: n.Recovery.RestoreDir}
		err = v.start(ctx, n)
	}
	if err != nil || !v.endedEarly {
		return v.node.Recovery.Until, err
	}
	return lastChange(ctx, n)
}

// endedEarly reports whether a server ended since it had nothing left to read before
// the point in time, by its own words.
func endedEarly(err error) bool {
	var exit *engine.ExitError
	return errors.As(err, &exit) && strings.Contains(exit.LastWords, "recovery ended before configured recovery target was reached")
}

// checkGap returns engine.ErrGap when the archive ended before the point in time
// although it held later files: then something in between is missing, and the data
// would be older than anybody knows. What was archived meanwhile came too late to be
// read, and nothing is missing before it.
func (v *recovery) checkGap() error {
	later := func(name string) bool { return beyond(name, v.restore.furthest) }
	if v.endedEarly && slices.ContainsFunc(v.archived, later) {
		return fmt.Errorf("after %s: %w", v.restore.furthest, engine.ErrGap)
	}
	return nil
}

func archiveIDOf(id []byte) string { return hex.EncodeToString(id) }

// lastSegment of a copy was being written when the copy ended.
func lastSegment(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	last := ""
	for _, e := range entries {
		if segmentName.MatchString(e.Name()) && (last == "" || beyond(e.Name(), last)) {
			last = e.Name()
		}
	}
	if last == "" {
		return "", fmt.Errorf("no WAL in %s", dir)
	}
	return last, nil
}

// Prunable is true for all but the histories of timelines.
func (Driver) Prunable(name string) bool { return !historyName.MatchString(name) }

// lastChange is the time of the last transaction that a server replayed which has just
// recovered; zero when there was none.
func lastChange(ctx context.Context, n engine.Node) (time.Time, error) {
	row, err := askOne(ctx, n, "SELECT coalesce((extract(epoch FROM pg_last_xact_replay_timestamp()) * 1e6)::bigint::text, '')")
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for the last change: %w", err)
	}
	return parseTime(row[0])
}

// StartNewArchive gives the data another system identifier, as Unpack does.
func (Driver) StartNewArchive(_ context.Context, _ engine.Node, dir string, _ engine.Piper) error {
	if err := remove(dir, leftovers...); err != nil {
		return fmt.Errorf("start new archive: %w", err)
	}
	control, err := readPristine(dir)
	if err != nil {
		return fmt.Errorf("start new archive: %w", err)
	}
	if err := freshIdentity().put(dir, control); err != nil {
		return fmt.Errorf("start new archive: %w", err)
	}
	if err := durable.SyncFileSystem(dir); err != nil {
		return fmt.Errorf("start new archive: %w", err)
	}
	return nil
}

// beyond reports whether of two archived files the first is of later changes, on
// whatever timeline.
func beyond(a, b string) bool {
	first, isFirst := segmentNumber(a)
	second, isSecond := segmentNumber(b)
	return isFirst && (!isSecond || first > second)
}
