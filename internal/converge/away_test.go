package converge_test

import (
	"fmt"
	"testing"
	"time"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/converge"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
)

// TestARegionThatIsAway: of its databases nothing is known, so nothing is done to them and nothing said.
func TestARegionThatIsAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.active()
	b.adopted(c.ID)
	b.lookedAgain(c.ID)
	applied := b.applied()
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepObserve, Err: fmt.Errorf("region kube: %w", platform.ErrAway)})
	b.lookedAgain(c.ID)
	b.lookedAgain(c.ID)
	if n := b.applied() - applied; n != 0 {
		t.Errorf("applied %d times", n)
	}
	if now := b.view(c.ID); now.Status != cluster.Active {
		t.Errorf("it is %s", now.Status)
	}
	b.mustHaveEvents(c.ID)
}

// none can have databases, and no backups of them.
type none struct{}

func (none) Abilities(string) catalog.Abilities { return catalog.Abilities{} }

// TestNoBackupsWhereThereAreNone: a region that has no backups isn't asked for any each day.
func TestNoBackupsWhereThereAreNone(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.active()
	v.keeper.Stop()
	v.plans.Regions, v.plans.Elsewhere = []catalog.Region{{ID: "local", Platform: catalog.Platform{Kind: catalog.Kubernetes}}}, none{}
	v.restart()
	v.pass(24 * time.Hour)
	v.quiet()
	if all, err := v.store.BackupsOf(t.Context(), c.ID); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
