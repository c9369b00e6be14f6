package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"steward/internal/durable"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/platform"
	"steward/internal/platform/host/archive"
	"steward/internal/process"
)

// pointInTimeRecovery is a scratch server that recovers from a copy to a point in time.
type pointInTimeRecovery struct {
	*scratch
	archiver engine.Recoverer
	from     platform.Source
	// archiveID is that of a Fetcher's files.
	archiveID string
	restore   *archive.RestoreDirectory
	// endedEarly reports whether the archive ended before the point in time.
	endedEarly bool
}

// recoverCopy recovers a copy to a later point in time, on a timeline of its own, puts
// the data at dir, and returns the keyring that it is encrypted with. The server that
// does it is like one that verifies a backup: nobody else can connect to it, and it
// is removed afterwards.
func (d *Driver) recoverCopy(ctx context.Context, want platform.Wanted, from platform.Source, keyring []byte, r io.Reader, dir string) (reached time.Time, ring []byte, err error) {
	eng, err := d.recoverer(want.Engine)
	if err != nil {
		return reached, nil, err
	}
	s, err := d.newScratch(ctx, want, from.Copy)
	if err != nil {
		return reached, nil, err
	}
	s.node.Keyring = keyring
	v := &pointInTimeRecovery{scratch: s, archiver: eng, from: from}
	reached, ring, err = v.run(ctx, r, dir)
	return reached, ring, errors.Join(err, s.remove(context.WithoutCancel(ctx)))
}

func (v *pointInTimeRecovery) run(ctx context.Context, r io.Reader, dir string) (reached time.Time, keyring []byte, err error) {
	if err := v.prepare(ctx, r); err != nil {
		return reached, nil, err
	}
	failpoint.Here("host: before recovery")
	switch eng := v.archiver.(type) {
	case engine.Fetcher:
		reached, err = v.fetch(ctx, eng)
	case engine.Feeder:
		reached, err = v.feed(ctx, eng)
	}
	if err != nil {
		return reached, nil, err
	}
	keyring, err = v.finish(ctx, dir)
	return reached, keyring, err
}

// feed has the server run and do what was archived.
func (v *pointInTimeRecovery) feed(ctx context.Context, eng engine.Feeder) (reached time.Time, err error) {
	if err := v.startAndWait(ctx); err != nil {
		return reached, err
	}
	reached, _, err = eng.Replay(ctx, v.node, engine.ArchiveSource{Names: v.from.Recovery.Archived, Fetch: v.from.Recovery.Fetch})
	if errors.Is(err, engine.ErrGap) {
		err = fmt.Errorf("%w: %w", platform.ErrGap, err)
	}
	return reached, err
}

// fetch has the server recover while it starts, asking for what it needs.
func (v *pointInTimeRecovery) fetch(ctx context.Context, eng engine.Fetcher) (reached time.Time, err error) {
	v.restore.Beyond = eng.Beyond
	served, stop := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := v.restore.Serve(served); err != nil {
			stop(err)
		}
	}()
	reached, err = v.replay(served, eng)
	cause := context.Cause(served)
	stop(nil)
	<-ended
	if err != nil {
		return reached, errors.Join(err, cause)
	}
	return reached, v.checkGap(ctx, eng)
}

// prepare unpacks the copy and all that its server needs.
func (v *pointInTimeRecovery) prepare(ctx context.Context, r io.Reader) error {
	if err := makeFolder(filepath.Dir(v.dir), 0o711, 0, 0); err != nil {
		return err
	}
	first := ""
	err := v.unpackBy(v.node.Data, r, func(dir string) (err error) {
		v.archiveID, first, err = v.archiver.UnpackToRecover(ctx, v.node, r, dir, v.d.pipeAsOwner)
		return err
	})
	if err != nil {
		return err
	}
	user := v.d.user(v.want.Port)
	v.restore = &archive.RestoreDirectory{
		Path: filepath.Join(v.node.Tmp, "restore"), User: user, Furthest: first,
		Fetch: func(ctx context.Context, name string, out io.Writer) (bool, error) {
			return v.from.Recovery.Fetch(ctx, v.archiveID, name, out)
		},
	}
	if err := makeFolder(v.restore.Path, 0o700, user, user); err != nil {
		return err
	}
	v.node.AdminPassword = v.from.AdminPassword
	v.node.Recovery = &engine.Recovery{Until: v.from.Recovery.Until, RestoreDir: v.restore.Path}
	return v.certificate(ctx)
}

// replay makes the server recover to the point in time, or else to the last change.
func (v *pointInTimeRecovery) replay(ctx context.Context, eng engine.Fetcher) (time.Time, error) {
	err := v.startAndWait(ctx)
	if err != nil && ctx.Err() == nil && eng.EndedEarly(lastWords(v.dir)) {
		v.endedEarly, v.node.Recovery.Until = true, time.Time{}
		err = v.startAndWait(ctx)
	}
	if err != nil || !v.endedEarly {
		return v.from.Recovery.Until, err
	}
	return eng.LastChange(ctx, v.node)
}

func (v *pointInTimeRecovery) startAndWait(ctx context.Context) error {
	if err := v.writeFiles(); err != nil {
		return err
	}
	if err := v.launch(); err != nil {
		return err
	}
	return v.awaitStart(ctx)
}

// checkGap returns platform.ErrGap when the archive ended before the point in time
// although it holds later files: then something in between is missing, and the data
// would be older than anybody knows.
func (v *pointInTimeRecovery) checkGap(ctx context.Context, eng engine.Fetcher) error {
	if !v.endedEarly {
		return nil
	}
	names, err := v.from.Recovery.Archived(ctx, v.archiveID)
	if err != nil {
		return err
	}
	later := func(name string) bool { return eng.Beyond(name, v.restore.Furthest) }
	if slices.ContainsFunc(names, later) {
		return fmt.Errorf("after %s: %w", v.restore.Furthest, platform.ErrGap)
	}
	return nil
}

// finish stops the server and moves its data to dir. It returns the keyring.
func (v *pointInTimeRecovery) finish(ctx context.Context, dir string) ([]byte, error) {
	if p := v.ns.process(); p != nil {
		if err := p.Stop(ctx, v.nodeReconciler.eng.StopSignal(), stopTimeout, v.group); err != nil {
			return nil, fmt.Errorf("stop the server that has recovered: %w", err)
		}
	}
	if err := process.KillAll(ctx, v.identity(), v.group); err != nil {
		return nil, err
	}
	if err := v.archiver.StartNewArchive(ctx, v.node, v.node.Data, v.d.pipeAsOwner); err != nil {
		return nil, err
	}
	keyring, err := v.nodeReconciler.eng.KeyringContent(v.node)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("remove an older copy: %w", err)
	}
	failpoint.Here("host: recovered")
	if err := os.Rename(v.node.Data, dir); err != nil {
		return nil, fmt.Errorf("move what was recovered: %w", err)
	}
	return keyring, durable.Sync(filepath.Dir(dir))
}
