package catalog

import (
	"cmp"

	"steward/internal/cluster"
	"steward/internal/fault"
)

// HasEngine implements cluster.Offer.
func (c *Catalog) HasEngine(engine cluster.Engine, series string) bool {
	_, ok := c.Engine(engine, series)
	return ok
}

// EngineIDs implements cluster.Offer.
func (c *Catalog) EngineIDs(engine cluster.Engine) (ids []string) {
	for _, e := range c.Offered() {
		if e.Engine == engine {
			ids = append(ids, e.ID())
		}
	}
	return ids
}

// HasType implements cluster.Offer. A deprecated plan goes on serving the
// databases that have it but takes no new ones.
func (c *Catalog) HasType(id string, _ cluster.Engine, _ int) bool {
	p, ok := c.Plan(id)
	return ok && !p.Deprecated
}

// HasRegion implements cluster.Offer.
func (c *Catalog) HasRegion(id string) bool {
	_, ok := c.Region(id)
	return ok
}

// Lacks implements cluster.Offer.
func (c *Catalog) Lacks(s cluster.Spec) fault.Faults {
	var faults fault.Faults
	can := c.Abilities(s.Region)
	e, offered := can.Engine(s.Engine, s.Series)
	switch {
	case can.Away != "":
		faults.Add("region", "%s", can.Away)
	case !offered && c.HasEngine(s.Engine, s.Series):
		faults.Add("engine", "Must be one that the region %s has: %s", s.Region, cmp.Or(can.Names(), "none"))
	case offered && s.Encrypted && e.EncryptionMissing != "":
		faults.Add("encrypted", "%s", e.EncryptionMissing)
	}
	return append(faults, c.LacksNodes(s)...)
}

// LacksNodes are the faults of asking the region for as many nodes, of a database that is new or that is there.
func (c *Catalog) LacksNodes(s cluster.Spec) fault.Faults {
	var faults fault.Faults
	if e, offered := c.Abilities(s.Region).Engine(s.Engine, s.Series); offered && e.Lacks.Nodes && s.Size > 1 {
		faults.Add("cluster_size", "Must be 1 for %s in the region %s", e.ID(), s.Region)
	}
	return faults
}

var _ cluster.Offer = (*Catalog)(nil)
