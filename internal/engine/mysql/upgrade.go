package mysql

import (
	"context"
	"errors"

	"steward/internal/engine"
)

// errNoUpgrade is what is returned by what UpgradeMissing keeps from being called.
var errNoUpgrade = errors.New("servers of MySQL's family aren't moved between series")

// UpgradeMissing implements engine.MajorUpgrader. MariaDB's own mariadb-upgrade, which alone has the changes of its system tables between
// series, starts other programs by paths that a relocated build hasn't.
func (d *Driver) UpgradeMissing(from, to engine.Installation) string {
	if from.Flavour != to.Flavour {
		return "MariaDB and MySQL can't be turned into one another; load a dump of the data into a new database."
	}
	return "Databases of MariaDB and MySQL aren't moved between versions here; load a dump of the data into a new database."
}

// Obstacles implements engine.MajorUpgrader.
func (d *Driver) Obstacles(context.Context, engine.Node, engine.Installation) ([]string, error) {
	return nil, errNoUpgrade
}

// TracksChanges implements engine.MajorUpgrader.
func (d *Driver) TracksChanges(string) bool { return false }

// PrepareUpgrade implements engine.MajorUpgrader.
func (d *Driver) PrepareUpgrade(context.Context, engine.Installation, string, engine.Runner) error {
	return errNoUpgrade
}

// Upgrade implements engine.MajorUpgrader.
func (d *Driver) Upgrade(context.Context, engine.Upgrade, engine.Runner) error { return errNoUpgrade }

// AdoptSeries implements engine.MajorUpgrader.
func (d *Driver) AdoptSeries(context.Context, engine.Node) error { return errNoUpgrade }

// FinishUpgrade implements engine.MajorUpgrader.
func (d *Driver) FinishUpgrade(context.Context, engine.Node) (string, error) { return "", errNoUpgrade }
