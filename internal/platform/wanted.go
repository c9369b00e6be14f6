package platform

import (
	"fmt"

	"steward/internal/catalog"
	"steward/internal/cluster"
)

// Wanted is everything a driver needs to know to bring a cluster about. It is
// rebuilt from the store for each Apply; drivers keep no copy.
type Wanted struct {
	// Cluster is what its row says. While it is LockedOut, nobody is let in.
	cluster.Cluster
	Plan catalog.Plan
	// Patch asks to move the nodes to the newest installed version of the
	// series, to renew certificates near their end, and to restart servers with
	// settings that wait for it, now. Without it the nodes stay with
	// Cluster.Installation.
	Patch bool
	// Restart asks that each server is started anew once for this request, by its number; 0 for none.
	// A cluster that sleeps has no server to restart.
	Restart int64
	// Switchover asks that another node becomes the primary than the one of this ordinal; nil for none.
	Switchover *int
	// Suspended asks that no process of the cluster runs; its data and its
	// addresses stay.
	Suspended bool
}

// UnknownPlanError is returned by NewWanted when the cluster's plan is no longer in the
// catalog. Its text is for customers.
type UnknownPlanError struct{ Plan string }

func (e *UnknownPlanError) Error() string {
	return fmt.Sprintf("The type %s is no longer in the catalog; the operator has to put it back, marked as deprecated.", e.Plan)
}

// NewWanted returns what is wanted of a cluster; its status says whether anything should
// run. A cluster that is to be suspended needs no plan.
func NewWanted(c cluster.Cluster, plans *catalog.Catalog, patch bool) (Wanted, error) {
	plan, ok := plans.Plan(c.Type)
	if !ok && !c.Status.Resting() {
		return Wanted{}, &UnknownPlanError{Plan: c.Type}
	}
	return Wanted{Cluster: c, Plan: plan, Patch: patch, Suspended: c.Status.Resting()}, nil
}

// Lost reports whether nothing is left of a cluster that was provisioned. Applying its
// spec would make an empty one in its place: a disk that isn't mounted must not end in
// that.
func Lost(c cluster.Cluster, seen Observed) bool {
	return c.Hosts.Primary != "" && !seen.Exists
}

// LostReason is what customers are told when a cluster is Lost.
const LostReason = "The database's files are gone; nothing was made in their place."
