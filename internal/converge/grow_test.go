package converge_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/converge"
	"steward/internal/operation"
	"steward/internal/platform/memplatform"
	"steward/internal/store"
)

// TestGrow: a database that is as full as its owner said moves to the next plan, once; where it can't, its owner is told once.
func TestGrow(t *testing.T) {
	t.Parallel()
	const gb = int64(1) << 30
	for _, c := range []struct {
		name   string
		change cluster.AutoscaleChange
		used   int64
		quotas account.Quotas
		// grows is the plan afterwards, says what a notification has, mails what contacts get.
		grows, says string
		mails       []string
	}{
		{"full enough", cluster.AutoscaleChange{Enabled: new(true), Percent: new(60), Max: &large.ID}, 15 * gb, account.Quotas{}, large.ID, "", []string{"ann@example.org: Database db-1 grows to large"}},
		{"not yet", cluster.AutoscaleChange{Enabled: new(true), Percent: new(61), Max: &large.ID}, 15 * gb, account.Quotas{}, small.ID, "", nil},
		{"switched off", cluster.AutoscaleChange{Enabled: new(false), Percent: new(60), Max: &large.ID}, 15 * gb, account.Quotas{}, small.ID, "", nil},
		{"at its largest", cluster.AutoscaleChange{Enabled: new(true), Percent: new(60), Max: &small.ID}, 15 * gb, account.Quotas{}, small.ID, "no larger type up to small", []string{"ann@example.org: Database db-1 fills up and can't grow"}},
		{"beyond the quota", cluster.AutoscaleChange{Enabled: new(true), Percent: new(60), Max: &large.ID}, 15 * gb, account.Quotas{DiskGB: new(30)}, small.ID, "quota of disk", []string{"ann@example.org: Database db-1 fills up and can't grow"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.keeper.Stop()
			if _, err := b.control.Contacts.Create(t.Context(), b.admin, control.ContactChange{Name: new("Ann"), Email: new("ann@example.org")}, nil); err != nil {
				t.Fatal(err)
			}
			b.keep(converge.Options{Every: 20 * time.Millisecond, Maintenance: converge.MaintenanceOptions{Every: 10 * time.Millisecond}, Quotas: c.quotas})
			db := b.active()
			if _, err := b.control.Clusters.Update(t.Context(), b.admin, db.Engine, db.ID, control.UpdateCluster{Autoscale: &c.change}, nil); err != nil {
				t.Fatal(err)
			}
			b.world.Edit(db.ID, func(m *memplatform.Cluster) { m.UsedBytes = c.used })
			b.driver.Change(db.ID)
			await.True(t, "the use is known", func() bool { now := b.view(db.ID); return now.UsedBytes != nil && *now.UsedBytes == c.used })
			began := func(o operation.Operation) bool { return o.Action == operation.Resize && o.Username == "" }
			told := func(o operation.Operation) bool {
				return o.Action == operation.LowDiskSpace && strings.Contains(o.Message, c.says)
			}
			switch {
			case c.grows != small.ID:
				await.True(t, "it grows", func() bool { return slices.ContainsFunc(b.events(db.ID), began) })
				await.True(t, "its status says so", func() bool { return b.view(db.ID).Status == cluster.Updating })
			case c.says != "":
				await.True(t, "its owner is told", func() bool { return slices.ContainsFunc(b.events(db.ID), told) })
			}
			if c.grows == small.ID { // for what must not happen, as often as it could by now
				b.lookedAgain(db.ID)
			} else {
				b.passedOver(db.ID, b.active().ID)
			}
			events := b.events(db.ID)
			if now := b.view(db.ID); now.Type != c.grows {
				t.Errorf("type %s", now.Type)
			}
			if grown := len(slices.DeleteFunc(slices.Clone(events), func(o operation.Operation) bool { return !began(o) })); c.grows == small.ID && grown > 0 || grown > 1 {
				t.Errorf("%d moves", grown)
			}
			if n := len(slices.DeleteFunc(slices.Clone(events), func(o operation.Operation) bool { return o.Action != operation.LowDiskSpace })); n > 1 || n == 1 && c.says == "" {
				t.Errorf("told %d times: %+v", n, events)
			}
			mails, err := b.store.Notices(t.Context(), store.NoticeQuery{})
			if err != nil {
				t.Fatal(err)
			}
			var subjects []string
			for _, n := range mails {
				subjects = append(subjects, n.Recipient+": "+n.Letter().Subject)
			}
			if diff := cmp.Diff(c.mails, subjects); diff != "" {
				t.Errorf("mails -want +got\n%s", diff)
			}
		})
	}
}
