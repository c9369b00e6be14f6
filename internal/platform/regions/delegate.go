package regions

import (
	"context"
	"errors"
	"io"
	"time"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/insight"
	"steward/internal/measure"
	"steward/internal/migration"
	"steward/internal/platform"
)

// Apply implements platform.Applier.
func (r *Router) Apply(ctx context.Context, want platform.Wanted) (platform.Observed, error) {
	return get(r.change(want.Cluster), func(d platform.Driver) (platform.Observed, error) { return d.Apply(ctx, want) })
}

// Observe implements platform.Applier.
func (r *Router) Observe(ctx context.Context, id cluster.ID) (platform.Observed, error) {
	return get(r.look(ctx, id), func(d platform.Driver) (platform.Observed, error) { return d.Observe(ctx, id) })
}

// Pending implements platform.Applier.
func (r *Router) Pending(ctx context.Context, want platform.Wanted) ([]cluster.Task, error) {
	return get(r.change(want.Cluster), func(d platform.Driver) ([]cluster.Task, error) { return d.Pending(ctx, want) })
}

// Remove implements platform.Applier.
func (r *Router) Remove(ctx context.Context, c cluster.Cluster) error {
	return r.change(c).do(func(d platform.Driver) error {
		err := d.Remove(ctx, c)
		if err == nil {
			r.known.Delete(c.ID)
		}
		return err
	})
}

// SetPassword implements platform.Applier.
func (r *Router) SetPassword(ctx context.Context, want platform.Wanted) error {
	return r.change(want.Cluster).do(func(d platform.Driver) error { return d.SetPassword(ctx, want) })
}

// SetReadOnly implements platform.Applier.
func (r *Router) SetReadOnly(ctx context.Context, want platform.Wanted, on bool) error {
	return r.change(want.Cluster).do(func(d platform.Driver) error { return d.SetReadOnly(ctx, want, on) })
}

// Backup implements platform.Archiver.
func (r *Router) Backup(ctx context.Context, want platform.Wanted, from cluster.Role, w io.Writer) (platform.Copy, error) {
	return get(r.change(want.Cluster), func(d platform.Driver) (platform.Copy, error) { return d.Backup(ctx, want, from, w) })
}

// Restore implements platform.Archiver.
func (r *Router) Restore(ctx context.Context, want platform.Wanted, from platform.Source, in io.Reader, progress func(int64)) (time.Time, error) {
	return get(r.change(want.Cluster), func(d platform.Driver) (time.Time, error) { return d.Restore(ctx, want, from, in, progress) })
}

// Fork implements platform.Archiver.
func (r *Router) Fork(ctx context.Context, want platform.Wanted, from platform.Source, in io.Reader, progress func(int64)) (time.Time, error) {
	return get(r.change(want.Cluster), func(d platform.Driver) (time.Time, error) { return d.Fork(ctx, want, from, in, progress) })
}

// Undo implements platform.Archiver.
func (r *Router) Undo(ctx context.Context, want platform.Wanted) error {
	return r.change(want.Cluster).do(func(d platform.Driver) error { return d.Undo(ctx, want) })
}

// Upgrade implements platform.Upgrader.
func (r *Router) Upgrade(ctx context.Context, want platform.Wanted, pausing func() error) error {
	return r.change(want.Cluster).do(func(d platform.Driver) error { return d.Upgrade(ctx, want, pausing) })
}

// Abandon implements platform.Upgrader.
func (r *Router) Abandon(ctx context.Context, want platform.Wanted) error {
	return r.change(want.Cluster).do(func(d platform.Driver) error { return d.Abandon(ctx, want) })
}

// FinishUpgrade implements platform.Upgrader.
func (r *Router) FinishUpgrade(ctx context.Context, want platform.Wanted) (string, error) {
	return get(r.change(want.Cluster), func(d platform.Driver) (string, error) { return d.FinishUpgrade(ctx, want) })
}

// TryUpgrade implements platform.Upgrader.
func (r *Router) TryUpgrade(ctx context.Context, want platform.Wanted, c platform.Copy, in io.Reader) (platform.Trial, error) {
	return get(r.change(want.Cluster), func(d platform.Driver) (platform.Trial, error) { return d.TryUpgrade(ctx, want, c, in) })
}

// Upload implements platform.ContinuousArchiver. What a region out of reach has written waits there.
func (r *Router) Upload(ctx context.Context, want platform.Wanted, to platform.ArchiveSink) error {
	at := r.change(want.Cluster)
	if at.err != nil {
		return nil //nolint:nilerr // its region is told of
	}
	return at.driver.Upload(ctx, want, to)
}

// Prunable implements platform.ContinuousArchiver. Other platforms put nothing into steward's archive.
func (r *Router) Prunable(of cluster.Engine, name string) bool { return r.host.Prunable(of, name) }

// Verify implements platform.Verifier.
func (r *Router) Verify(ctx context.Context, want platform.Wanted, c platform.Copy, in io.Reader) error {
	return r.change(want.Cluster).do(func(d platform.Driver) error { return d.Verify(ctx, want, c, in) })
}

// KeepsBackups implements platform.BackupKeeper: of a platform that wasn't reached yet nothing is in steward's archive, as of none but
// this host.
func (r *Router) KeepsBackups(of cluster.Cluster) bool {
	at := r.change(of)
	return errors.Is(at.err, platform.ErrAway) || at.err == nil && at.driver.KeepsBackups(of)
}

// TakeBackup implements platform.BackupKeeper.
func (r *Router) TakeBackup(ctx context.Context, want platform.Wanted, id backup.ID, from cluster.Role) (platform.Kept, error) {
	return get(r.change(want.Cluster), func(d platform.Driver) (platform.Kept, error) { return d.TakeBackup(ctx, want, id, from) })
}

// RestoreKept implements platform.BackupKeeper.
func (r *Router) RestoreKept(ctx context.Context, want platform.Wanted, from platform.KeptSource, placing func() error) (time.Time, error) {
	return get(r.change(want.Cluster), func(d platform.Driver) (time.Time, error) { return d.RestoreKept(ctx, want, from, placing) })
}

// ForkKept implements platform.BackupKeeper.
func (r *Router) ForkKept(ctx context.Context, want platform.Wanted, from platform.KeptSource) (time.Time, error) {
	return get(r.change(want.Cluster), func(d platform.Driver) (time.Time, error) { return d.ForkKept(ctx, want, from) })
}

// VerifyKept implements platform.BackupKeeper.
func (r *Router) VerifyKept(ctx context.Context, want platform.Wanted, from platform.KeptSource) error {
	return r.change(want.Cluster).do(func(d platform.Driver) error { return d.VerifyKept(ctx, want, from) })
}

// DropBackup implements platform.BackupKeeper.
func (r *Router) DropBackup(ctx context.Context, of cluster.Cluster, id backup.ID, ref string) error {
	return r.change(of).do(func(d platform.Driver) error { return d.DropBackup(ctx, of, id, ref) })
}

// DropBackups implements platform.BackupKeeper.
func (r *Router) DropBackups(ctx context.Context, of cluster.Cluster) error {
	return r.change(of).do(func(d platform.Driver) error { return d.DropBackups(ctx, of) })
}

// PruneBackups implements platform.BackupKeeper.
func (r *Router) PruneBackups(ctx context.Context, of cluster.Cluster, keep []string) error {
	return r.change(of).do(func(d platform.Driver) error { return d.PruneBackups(ctx, of, keep) })
}

// Measure implements platform.Measurer.
func (r *Router) Measure(ctx context.Context, id cluster.ID) ([]platform.NodeReading, error) {
	return get(r.look(ctx, id), func(d platform.Driver) ([]platform.NodeReading, error) { return d.Measure(ctx, id) })
}

// Families implements platform.Measurer.
func (r *Router) Families(ctx context.Context, id cluster.ID) ([]platform.NodeFamilies, error) {
	return get(r.look(ctx, id), func(d platform.Driver) ([]platform.NodeFamilies, error) { return d.Families(ctx, id) })
}

// Tables implements platform.Measurer.
func (r *Router) Tables(ctx context.Context, id cluster.ID, most int) ([]measure.Table, error) {
	return get(r.look(ctx, id), func(d platform.Driver) ([]measure.Table, error) { return d.Tables(ctx, id, most) })
}

// Sessions implements platform.Inspector.
func (r *Router) Sessions(ctx context.Context, id cluster.ID) (insight.Sessions, error) {
	return get(r.look(ctx, id), func(d platform.Driver) (insight.Sessions, error) { return d.Sessions(ctx, id) })
}

// EndSession implements platform.Inspector.
func (r *Router) EndSession(ctx context.Context, id cluster.ID, session insight.SessionID, how insight.EndMode) error {
	return r.look(ctx, id).do(func(d platform.Driver) error { return d.EndSession(ctx, id, session, how) })
}

// Statements implements platform.Inspector.
func (r *Router) Statements(ctx context.Context, id cluster.ID, order insight.StatementOrder, first, most int) (insight.Statements, error) {
	return get(r.look(ctx, id), func(d platform.Driver) (insight.Statements, error) { return d.Statements(ctx, id, order, first, most) })
}

// ResetStatements implements platform.Inspector.
func (r *Router) ResetStatements(ctx context.Context, id cluster.ID) (missing string, err error) {
	return get(r.look(ctx, id), func(d platform.Driver) (string, error) { return d.ResetStatements(ctx, id) })
}

// StatementText implements platform.Inspector.
func (r *Router) StatementText(ctx context.Context, id cluster.ID, statement string) (text, database string, err error) {
	at := r.look(ctx, id)
	if at.err != nil {
		return "", "", at.err
	}
	return at.driver.StatementText(ctx, id, statement)
}

// Plan implements platform.Inspector.
func (r *Router) Plan(ctx context.Context, id cluster.ID, database, text string) (insight.Plan, error) {
	return get(r.look(ctx, id), func(d platform.Driver) (insight.Plan, error) { return d.Plan(ctx, id, database, text) })
}

// Logs implements platform.Inspector.
func (r *Router) Logs(ctx context.Context, id cluster.ID, q insight.LogQuery) ([]insight.LogLine, error) {
	return get(r.look(ctx, id), func(d platform.Driver) ([]insight.LogLine, error) { return d.Logs(ctx, id, q) })
}

// Inside implements platform.Shaper.
func (r *Router) Inside(ctx context.Context, id cluster.ID, work func(ctx context.Context, l platform.Logical) error) error {
	return r.look(ctx, id).do(func(d platform.Driver) error { return d.Inside(ctx, id, work) })
}

// EndUser implements platform.Shaper.
func (r *Router) EndUser(ctx context.Context, id cluster.ID, user string) error {
	return r.look(ctx, id).do(func(d platform.Driver) error { return d.EndUser(ctx, id, user) })
}

// Extend implements platform.Shaper.
func (r *Router) Extend(ctx context.Context, id cluster.ID, database string, work func(ctx context.Context, e platform.Extensions) error) error {
	return r.look(ctx, id).do(func(d platform.Driver) error { return d.Extend(ctx, id, database, work) })
}

// Examine implements platform.Importer.
func (r *Router) Examine(ctx context.Context, id cluster.ID, from platform.ImportSource, mode migration.Mode, databases []migration.Database) (migration.Report, error) {
	return get(r.look(ctx, id), func(d platform.Driver) (migration.Report, error) { return d.Examine(ctx, id, from, mode, databases) })
}

// Import implements platform.Importer.
func (r *Router) Import(ctx context.Context, id cluster.ID, from platform.ImportSource, database migration.Database, report func(platform.ImportProgress)) error {
	return r.look(ctx, id).do(func(d platform.Driver) error { return d.Import(ctx, id, from, database, report) })
}

// Empty implements platform.Importer.
func (r *Router) Empty(ctx context.Context, id cluster.ID, database string) (bool, error) {
	return get(r.look(ctx, id), func(d platform.Driver) (bool, error) { return d.Empty(ctx, id, database) })
}

// KeepUp implements platform.Importer.
func (r *Router) KeepUp(ctx context.Context, id cluster.ID, from platform.ImportSource, database migration.Database, asked <-chan struct{}, report func(platform.ImportProgress)) error {
	return r.look(ctx, id).do(func(d platform.Driver) error { return d.KeepUp(ctx, id, from, database, asked, report) })
}

// Complete implements platform.Importer.
func (r *Router) Complete(ctx context.Context, id cluster.ID, database migration.Database, report func(platform.ImportProgress)) error {
	return r.look(ctx, id).do(func(d platform.Driver) error { return d.Complete(ctx, id, database, report) })
}

// Release implements platform.Importer.
func (r *Router) Release(ctx context.Context, c cluster.Cluster, from platform.ImportSource, database migration.Database) error {
	return r.change(c).do(func(d platform.Driver) error { return d.Release(ctx, c, from, database) })
}

// Leftovers implements platform.Importer.
func (r *Router) Leftovers(c cluster.Cluster, database migration.Database) string {
	at := r.change(c)
	if at.err != nil {
		return ""
	}
	return at.driver.Leftovers(c, database)
}
