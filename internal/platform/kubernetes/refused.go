package kubernetes

import (
	"context"
	"errors"
	"io"
	"time"

	"steward/internal/cluster"
	"steward/internal/platform"
)

// errRefused is what is answered to what can't be done in such a region. Who asks is told before by what the region can.
var errRefused = errors.New("regions on Kubernetes can't do that")

// Backup implements platform.Archiver: backups aren't steward's archive's, here.
func (d *Driver) Backup(context.Context, platform.Wanted, cluster.Role, io.Writer) (platform.Copy, error) {
	return platform.Copy{}, errRefused
}

// Restore implements platform.Archiver: see RestoreKept.
func (d *Driver) Restore(context.Context, platform.Wanted, platform.Source, io.Reader, func(int64)) (time.Time, error) {
	return time.Time{}, errRefused
}

// Fork implements platform.Archiver: see ForkKept.
func (d *Driver) Fork(context.Context, platform.Wanted, platform.Source, io.Reader, func(int64)) (time.Time, error) {
	return time.Time{}, errRefused
}

// Upload implements platform.ContinuousArchiver: the operator archives.
func (d *Driver) Upload(context.Context, platform.Wanted, platform.ArchiveSink) error { return nil }

// Prunable implements platform.ContinuousArchiver: there is nothing.
func (d *Driver) Prunable(cluster.Engine, string) bool { return false }

// Verify implements platform.Verifier: see VerifyKept.
func (d *Driver) Verify(context.Context, platform.Wanted, platform.Copy, io.Reader) error {
	return errRefused
}

// Upgrade implements platform.Upgrader.
func (d *Driver) Upgrade(context.Context, platform.Wanted, func() error) error { return errRefused }

// Abandon implements platform.Upgrader.
func (d *Driver) Abandon(context.Context, platform.Wanted) error { return errRefused }

// FinishUpgrade implements platform.Upgrader.
func (d *Driver) FinishUpgrade(context.Context, platform.Wanted) (string, error) {
	return "", errRefused
}

// TryUpgrade implements platform.Upgrader.
func (d *Driver) TryUpgrade(context.Context, platform.Wanted, platform.Copy, io.Reader) (platform.Trial, error) {
	return platform.Trial{}, errRefused
}
