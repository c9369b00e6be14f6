package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"steward/internal/durable"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/platform"
	"steward/internal/platform/host/files"
)

// pointInTimeRecovery is a scratch server that recovers from a copy to a point in time.
type pointInTimeRecovery struct {
	*scratch
	from platform.Source
}

// recoverCopy recovers a copy to a later point in time, on a timeline of its own, puts
// the data at dir, and returns the keyring that it is encrypted with. The server that
// does it is like one that verifies a backup: nobody else can connect to it, and it
// is removed afterwards.
func (d *Driver) recoverCopy(ctx context.Context, want platform.Wanted, from platform.Source, keyring []byte, r io.Reader, dir string) (reached time.Time, ring []byte, err error) {
	ctx, done, err := d.verifications.replace(ctx, want.ID)
	if err != nil {
		return reached, nil, err
	}
	defer done()
	s, err := d.newScratch(ctx, want, from.Copy)
	if err != nil {
		return reached, nil, err
	}
	s.node.Keyring = keyring
	v := &pointInTimeRecovery{scratch: s, from: from}
	reached, ring, err = v.run(ctx, r, dir)
	return reached, ring, errors.Join(err, s.remove(context.WithoutCancel(ctx)))
}

func (v *pointInTimeRecovery) run(ctx context.Context, r io.Reader, dir string) (reached time.Time, keyring []byte, err error) {
	if err := v.prepare(ctx, r); err != nil {
		return reached, nil, err
	}
	failpoint.Here("host: before recovery")
	archived := engine.ArchiveSource{Names: v.from.Recovery.Archived, Fetch: v.from.Recovery.Fetch}
	reached, err = v.eng.Recover(ctx, v.node, archived, v.startAndWait)
	if errors.Is(err, engine.ErrGap) {
		err = fmt.Errorf("%w: %w", platform.ErrGap, err)
	}
	if err != nil {
		return reached, nil, err
	}
	keyring, err = v.finish(ctx, dir)
	return reached, keyring, err
}

// prepare unpacks the copy and all that its server needs.
func (v *pointInTimeRecovery) prepare(ctx context.Context, r io.Reader) error {
	if err := files.MakeFolder(filepath.Dir(v.dir), 0o711, 0, 0); err != nil {
		return err
	}
	err := v.unpackBy(v.node.Data, r, func(dir string) error {
		return v.eng.UnpackToRecover(ctx, v.node, r, dir, v.d.tools.Pipe)
	})
	if err != nil {
		return err
	}
	user := v.d.user(v.want.Port)
	restoreDir := filepath.Join(v.node.Tmp, "restore")
	if err := files.MakeFolder(restoreDir, 0o700, user, user); err != nil {
		return err
	}
	v.node.AdminPassword = cmp.Or(v.from.AdminPassword, v.node.AdminPassword)
	v.node.Recovery = &engine.Recovery{Until: v.from.Recovery.Until, RestoreDir: restoreDir}
	return v.certificate(ctx)
}

// startAndWait has the server start as the node says.
func (v *pointInTimeRecovery) startAndWait(ctx context.Context, n engine.Node) error {
	v.node = n
	if err := v.writeFiles(); err != nil {
		return err
	}
	if err := v.launch(ctx); err != nil {
		return err
	}
	return v.awaitStart(ctx)
}

// finish stops the server and moves its data to dir. It returns the keyring.
func (v *pointInTimeRecovery) finish(ctx context.Context, dir string) ([]byte, error) {
	if err := v.end(ctx); err != nil {
		return nil, err
	}
	if err := v.eng.StartNewArchive(ctx, v.node, v.node.Data, v.d.tools.Pipe); err != nil {
		return nil, err
	}
	keyring, err := v.eng.KeyringContent(v.node)
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
