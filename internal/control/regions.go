package control

import (
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
)

// region is what is wrong with asking for something of a database that not all regions can, or not with all engines; nil where it can be done. what is
// in the words of a sentence about databases.
func (d Deps) region(c cluster.Cluster, can func(catalog.Abilities) bool, what string) fault.Faults {
	switch {
	case can(d.Catalog.For(c.Region, c.Engine)):
		return nil
	case can(d.Catalog.Abilities(c.Region)):
		return fault.Faults{fault.NewInvalid("region", "Databases of %s in the region %s can't be %s", c.Engine, c.Region, what)}
	}
	return fault.Faults{fault.NewInvalid("region", "Databases of the region %s can't be %s", c.Region, what)}
}

// regionAway is what is told of a database in a region that hasn't been reached yet.
func regionAway() error {
	return fault.NewPrecondition("The database's region can't be reached; try again soon.")
}

func backedUp(can catalog.Abilities) bool { return can.Backups }

// continuous reports whether what a database's servers write between backups is archived.
func (d Deps) continuous(c cluster.Cluster) bool {
	if r, ok := d.Catalog.Region(c.Region); ok && !r.Platform.OnHost() {
		return d.Catalog.For(c.Region, c.Engine).Moments
	}
	return d.Continuous
}

// sleeps reports whether databases of a region can sleep.
func (d Deps) sleeps(region string) bool { return d.CanSleep && d.Catalog.Abilities(region).Sleep }

// platformOf is the name of the platform that a region's databases are made on.
func (d Deps) platformOf(region string) string {
	r, _ := d.Catalog.Region(region)
	return r.Platform.Name()
}

// requireIn is cluster.Require for what not all regions can.
func (d Deps) requireIn(c cluster.Cluster, r cluster.Request, can func(catalog.Abilities) bool, what string) error {
	return append(d.region(c, can, what), faultsIn(cluster.Require(c.Status, r))...).Err()
}
