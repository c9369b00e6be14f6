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

	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/platform"
	"steward/internal/process"
)

// recovery is a scratch server that goes on from a copy to a moment.
type recovery struct {
	*scratch
	eng  engine.Recoverer
	from platform.Source
	// archiveID is what a Fetcher's files are archived under.
	archiveID string
	desk      *desk
	// short tells that what was archived ended before the moment.
	short bool
}

// recoverCopy makes at dir the data of a point in time after the copy's, a history of
// its own, and returns the keyring that it is encrypted with. The server that does
// it is like one that tries a backup out: nobody else gets at it, and it is gone
// afterwards.
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
	v := &recovery{scratch: s, eng: eng, from: from}
	reached, ring, err = v.run(ctx, r, dir)
	return reached, ring, errors.Join(err, s.remove(context.WithoutCancel(ctx)))
}

func (v *recovery) run(ctx context.Context, r io.Reader, dir string) (reached time.Time, keyring []byte, err error) {
	if err := v.prepare(ctx, r); err != nil {
		return reached, nil, err
	}
	failpoint.Here("host: before recovery")
	switch eng := v.eng.(type) {
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
func (v *recovery) feed(ctx context.Context, eng engine.Feeder) (reached time.Time, err error) {
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
func (v *recovery) fetch(ctx context.Context, eng engine.Fetcher) (reached time.Time, err error) {
	v.desk.beyond = eng.Beyond
	served, stop := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := v.desk.serve(served); err != nil {
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
	return reached, v.noGap(ctx, eng)
}

// prepare unpacks the copy and all that its server needs.
func (v *recovery) prepare(ctx context.Context, r io.Reader) error {
	if err := makeFolder(filepath.Dir(v.dir), 0o711, 0, 0); err != nil {
		return err
	}
	first := ""
	err := v.unpackBy(v.node.Data, r, func(dir string) (err error) {
		v.archiveID, first, err = v.eng.UnpackToRecover(ctx, v.node, r, dir, v.d.pipeAsOwner)
		return err
	})
	if err != nil {
		return err
	}
	user := v.d.user(v.want.Port)
	v.desk = &desk{
		dir: filepath.Join(v.node.Tmp, "desk"), user: user, furthest: first,
		fetch: func(ctx context.Context, name string, out io.Writer) (bool, error) {
			return v.from.Recovery.Fetch(ctx, v.archiveID, name, out)
		},
	}
	if err := makeFolder(v.desk.dir, 0o700, user, user); err != nil {
		return err
	}
	v.node.AdminPassword = v.from.AdminPassword
	v.node.Recovery = &engine.Recovery{Until: v.from.Recovery.Until, RestoreDir: v.desk.dir}
	return v.certificate(ctx)
}

// replay has the server recover to the moment, or else to the last change.
func (v *recovery) replay(ctx context.Context, eng engine.Fetcher) (time.Time, error) {
	err := v.startAndWait(ctx)
	if err != nil && ctx.Err() == nil && eng.EndedEarly(lastWords(v.dir)) {
		v.short, v.node.Recovery.Until = true, time.Time{}
		err = v.startAndWait(ctx)
	}
	if err != nil || !v.short {
		return v.from.Recovery.Until, err
	}
	return eng.LastChange(ctx, v.node)
}

func (v *recovery) startAndWait(ctx context.Context) error {
	if err := v.writeFiles(); err != nil {
		return err
	}
	if err := v.launch(); err != nil {
		return err
	}
	return v.awaitStart(ctx)
}

// noGap: when the server found nothing more before its moment, nothing later may
// be there either. Else something in between is missing, and the data would be
// older than anybody knows.
func (v *recovery) noGap(ctx context.Context, eng engine.Fetcher) error {
	if !v.short {
		return nil
	}
	names, err := v.from.Recovery.Archived(ctx, v.archiveID)
	if err != nil {
		return err
	}
	later := func(name string) bool { return eng.Beyond(name, v.desk.furthest) }
	if slices.ContainsFunc(names, later) {
		return fmt.Errorf("after %s: %w", v.desk.furthest, platform.ErrGap)
	}
	return nil
}

// finish stops the server and moves its data to dir. It returns the keyring.
func (v *recovery) finish(ctx context.Context, dir string) ([]byte, error) {
	if p := v.m.process(); p != nil {
		if err := p.Stop(ctx, v.job.eng.StopSignal(), stopPatience, v.group); err != nil {
			return nil, fmt.Errorf("stop the server that has recovered: %w", err)
		}
	}
	if err := process.KillAll(ctx, v.identity(), v.group); err != nil {
		return nil, err
	}
	if err := v.eng.StartNewArchive(ctx, v.node, v.node.Data, v.d.pipeAsOwner); err != nil {
		return nil, err
	}
	keyring, err := v.job.eng.KeyringContent(v.node)
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
	return keyring, syncFolder(filepath.Dir(dir))
}
