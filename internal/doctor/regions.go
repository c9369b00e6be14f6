package doctor

import (
	"context"
	"log/slog"
	"time"

	"steward/internal/catalog"
	"steward/internal/config"
	"steward/internal/datadir"
	"steward/internal/platform/kubernetes"
)

// examineTime bounds the examination of a region.
const examineTime = 20 * time.Second

// Finding is something that was found in a region.
type Finding = kubernetes.Finding

// Region is what was found of a region that has a platform of its own.
type Region struct {
	ID        string `json:"id"`
	Platform  string `json:"platform"`
	Reachable bool   `json:"reachable"`
	// Fault is why it can't be reached.
	Fault string `json:"fault,omitempty"`
	kubernetes.Examined
}

// Usable reports whether databases can be made there.
func (r Region) Usable() bool { return r.Reachable && len(r.Missing) == 0 }

// examineRegions looks at the regions of the catalog, one after the other.
func examineRegions(ctx context.Context, c config.Config) ([]Region, error) {
	loaded, err := c.Catalog.Load(nil)
	if err != nil {
		return nil, err
	}
	var all []Region
	for _, r := range loaded.Regions {
		if !r.Platform.OnHost() {
			all = append(all, examineRegion(ctx, r))
		}
	}
	return all, nil
}

func examineRegion(ctx context.Context, r catalog.Region) Region {
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	found := Region{ID: r.ID, Platform: r.Platform.Name()}
	o, err := datadir.KubernetesOptions(r.Platform, slog.New(slog.DiscardHandler))
	if err == nil {
		found.Examined, err = kubernetes.Examine(ctx, o)
	}
	if err != nil {
		found.Fault = err.Error()
	}
	found.Reachable = err == nil
	return found
}
