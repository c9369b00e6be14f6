package control

import (
	"context"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/store"
)

// Final is the last backup of a deleted database.
type Final struct {
	Cluster cluster.Cluster
	Backup  backup.Backup
}

// finalFaults are what keeps a last backup from being taken when a database is deleted.
func (s *Clusters) finalFaults(c cluster.Cluster) (faults fault.Faults) {
	can := s.Catalog.For(c.Region, c.Engine)
	switch {
	case s.KeepFinal <= 0:
		faults.Add("final_backup", "Must be false: the operator keeps no backups of deleted databases")
	case !can.Backups || can.KeepsBackups:
		faults.Add("final_backup", "Must be false: backups of the region %s go with their databases", c.Region)
	case c.Status != cluster.Active && c.Status != cluster.Degraded:
		faults.Add("final_backup", "Must be false while the database is %s: none can be taken; resume it first, or keep what a fork has", c.Status)
	}
	return faults
}

// finalBackup records the backup that a delete begins with.
func finalBackup(ctx context.Context, tx *store.Tx, c cluster.Cluster) (backup.ID, string, error) {
	existing, err := tx.BackupsOf(ctx, c.ID)
	if err != nil {
		return 0, "", err
	}
	b, err := tx.CreateBackup(ctx, backup.Backup{
		Account: c.Account, Cluster: c.ID, Type: backup.Auto, Label: backup.FinalLabel(existing), Target: backup.FromPrimary,
	})
	return b.ID, b.Label, err
}

// Finals are the last backups of the account's deleted databases, for unrestricted users.
func (s *Clusters) Finals(ctx context.Context, p account.Principal) ([]Final, error) {
	if err := unrestricted(p); err != nil {
		return nil, err
	}
	gone, err := s.Store.FinalSources(ctx, p.Account, s.Now())
	if err != nil {
		return nil, err
	}
	all := []Final{}
	for _, c := range gone {
		b, there, err := s.Store.FinalBackup(ctx, c.ID)
		if err != nil {
			return nil, err
		}
		if there {
			all = append(all, Final{c, b})
		}
	}
	return all, nil
}

// DeleteFinal gives the last backup of a deleted database up, which is then removed.
func (s *Clusters) DeleteFinal(ctx context.Context, p account.Principal, id cluster.ID) error {
	if err := unrestricted(p); err != nil {
		return err
	}
	if _, err := s.Store.FinalSource(ctx, p.Account, id, s.Now()); err != nil {
		return err
	}
	return s.Store.InTx(ctx, func(tx *store.Tx) error { return tx.SetFinalUntil(ctx, id, s.Now()) })
}

// forkable is the database that a fork is made of: one that the caller sees, or one whose last backup is kept.
func (s *Clusters) forkable(ctx context.Context, p account.Principal, id cluster.ID) (cluster.Cluster, error) {
	c, err := s.View(ctx, p, "", id)
	if fault.IsKind(err, fault.NotFound) && !p.User.Restricted {
		return s.Store.FinalSource(ctx, p.Account, id, s.Now())
	}
	return c, err
}
