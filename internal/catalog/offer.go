package catalog

import (
	"errors"

	"steward/internal/cluster"
)

// HasEngine implements cluster.Offer.
func (c *Catalog) HasEngine(engine cluster.Engine, series string) bool {
	_, ok := c.Engine(engine, series)
	return ok
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

// Encryption implements cluster.Offer.
func (c *Catalog) Encryption(engine cluster.Engine, series string) error {
	e, ok := c.Engine(engine, series)
	if !ok || e.EncryptionMissing == "" {
		return nil
	}
	return errors.New(e.EncryptionMissing)
}

var _ cluster.Offer = (*Catalog)(nil)
