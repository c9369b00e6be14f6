package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

// upgradeFaults are what keeps a database from being moved to a version.
func (s *clusterChanges) upgradeFaults(c cluster.Cluster, version string) (faults fault.Faults) {
	can := s.Catalog.Abilities(c.Region)
	if !can.Upgrades {
		faults.Add("version", "Can't be changed once the database is made: databases of the region %s can't be moved to another version", c.Region)
		return faults
	}
	to, offered := can.Engine(c.Engine, s.Catalog.Series(c.Engine, version))
	reason, newer := to.Upgrades[c.Installation]
	switch {
	case offered && newer && reason == "" && c.Encrypted && to.EncryptionMissing != "":
		faults.Add("version", "%s", to.EncryptionMissing)
	case offered && newer && reason == "":
	case offered && newer:
		faults.Add("version", "%s", reason)
	default:
		faults.Add("version", "Must be %s, or a newer version that its data can be moved to: %s", c.Series, cmp.Or(strings.Join(upgradesOf(can, c), ", "), "none is installed"))
	}
	return faults
}

// upgradesOf are the series that a database can be moved to.
func upgradesOf(can catalog.Abilities, c cluster.Cluster) []string {
	var all []string
	for _, e := range can.Engines {
		if reason, newer := e.Upgrades[c.Installation]; e.Engine == c.Engine && newer && reason == "" {
			all = append(all, e.Series)
		}
	}
	return all
}

// backUpBefore records the backup that an upgrade begins with.
func backUpBefore(ctx context.Context, tx *store.Tx, c cluster.Cluster, series string) (backup.ID, string, error) {
	existing, err := tx.BackupsOf(ctx, c.ID)
	if err != nil {
		return 0, "", err
	}
	b, err := tx.CreateBackup(ctx, backup.Backup{
		Account: c.Account, Cluster: c.ID, Type: backup.Auto, Label: backup.UpgradeLabel(series, existing), Target: backup.FromPrimary,
	})
	return b.ID, b.Label, err
}

// CheckUpgrade begins to try the move to a version on a copy of the data, the newest backup's. The database goes on as it is.
func (s *Clusters) CheckUpgrade(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, version string, faults fault.Faults) error {
	var chosen backup.Backup
	check := func(c cluster.Cluster) error {
		found := faultsIn(cluster.Require(c.Status, cluster.RequestTrial))
		if version != "" {
			found = append(found, s.upgradeFaults(c, version)...)
		}
		all, err := s.Store.BackupsOf(ctx, c.ID)
		if err != nil {
			return fmt.Errorf("list the backups of database %d: %w", c.ID, err)
		}
		good := slices.DeleteFunc(backup.ForkFrom(all, nil), func(b backup.Backup) bool { return cluster.SeriesOf(b.Installation) != c.Series })
		if len(good) == 0 {
			found = append(found, fault.NewPrecondition("The database has no backup of its version to try it on; take one first."))
		} else {
			chosen = good[0]
		}
		going, err := s.Store.UnfinishedOperations(ctx, c.ID)
		if err != nil {
			return fmt.Errorf("look what goes on: %w", err)
		}
		if slices.ContainsFunc(going, func(o operation.Operation) bool { return o.Action == operation.UpgradeCheck }) {
			found = append(found, fault.NewPrecondition("Another check of an upgrade goes on; wait until it is done."))
		}
		return combine(faults, found).Err()
	}
	_, err := s.change(ctx, p, engine, id, check, func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		params := operation.Params{Series: s.Catalog.Series(c.Engine, version), OldSeries: c.Series, Backup: chosen.ID, BackupLabel: chosen.Label}
		return c, s.begin(ctx, tx, p, c, operation.UpgradeCheck, params)
	})
	return err
}

// LastUpgradeCheck is the last try of a database; the zero Operation without any.
func (s *Clusters) LastUpgradeCheck(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) (operation.Operation, error) {
	if _, err := s.View(ctx, p, engine, id); err != nil {
		return operation.Operation{}, err
	}
	o, _, err := s.Store.LastOperation(ctx, id, operation.UpgradeCheck)
	return o, err
}
