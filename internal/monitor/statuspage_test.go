package monitor_test

import (
	"strings"
	"testing"

	"steward/internal/cluster"
	"steward/internal/monitor"
)

func TestStatusPageValidate(t *testing.T) {
	t.Parallel()
	good := monitor.StatusPage{Slug: "shop-1", Title: "Shop", Days: 90, Services: []monitor.ServiceID{2, 1}, Databases: []cluster.ID{1, 2}}
	if faults := good.Validate(); len(faults) > 0 {
		t.Errorf("a good page: %v", faults)
	}
	bad := good
	bad.Slug, bad.Title, bad.Days = "Shop", " ", 401
	bad.Services, bad.Databases = []monitor.ServiceID{1, 2, 1}, make([]cluster.ID, 101)
	for i := range bad.Databases {
		bad.Databases[i] = cluster.ID(i)
	}
	faults := bad.Validate()
	for _, field := range []string{"slug", "title", "days", "services", "databases"} {
		if !faults.Name(field) {
			t.Errorf("%s isn't named in %v", field, faults)
		}
	}
	for _, slug := range []string{"ab", strings.Repeat("a", 49), "-abc", "abc-", "a--b", "a.b", "a/b", "ä-page", "abc\n", "a b", "<b>"} {
		one := good
		if one.Slug = slug; !one.Validate().Name("slug") {
			t.Errorf("the slug %q is taken", slug)
		}
	}
	for _, title := range []string{"", "a\nb", "\u200b\x00", strings.Repeat("é", 101)} {
		one := good
		if one.Title = title; !one.Validate().Name("title") {
			t.Errorf("the title %q is taken", title)
		}
	}
}

// TestOverall: a page is as bad as its worst entry; what is paused or unknown says nothing.
func TestOverall(t *testing.T) {
	t.Parallel()
	for want, states := range map[monitor.PublicState][]monitor.PublicState{
		monitor.Unknown:     {monitor.Paused, monitor.Unknown},
		monitor.Operational: {monitor.Paused, monitor.Operational, monitor.Unknown},
		monitor.Maintenance: {monitor.Maintenance, monitor.Operational},
		monitor.Disturbed:   {monitor.Disturbed, monitor.Maintenance},
		monitor.Outage:      {monitor.Disturbed, monitor.Outage, monitor.Operational},
	} {
		var entries []monitor.PublicEntry
		for _, s := range states {
			entries = append(entries, monitor.PublicEntry{State: s})
		}
		if got := monitor.Overall(entries); got != want {
			t.Errorf("%v: %s, not %s", states, got, want)
		}
	}
	for _, s := range cluster.Statuses {
		if monitor.StateOf(s) == monitor.Unknown {
			t.Errorf("a database that is %s is unknown", s)
		}
	}
}
