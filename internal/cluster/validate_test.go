package cluster_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"steward/internal/cluster"
	"steward/internal/fault"
)

// offer is a place with one of everything.
type offer struct{}

func (offer) HasEngine(engine cluster.Engine, series string) bool {
	return engine == cluster.PostgreSQL && series == "15" || engine == cluster.MySQL && series == "10.11"
}

func (offer) EngineIDs(engine cluster.Engine) []string {
	return map[cluster.Engine][]string{cluster.PostgreSQL: {"postgresql/15"}, cluster.MySQL: {"mysql/10.11"}}[engine]
}
func (offer) HasType(id string, _ cluster.Engine, _ int) bool { return id == "g6-nanode-1" }
func (offer) HasRegion(id string) bool                        { return id == "local" }
func (o offer) Lacks(s cluster.Spec) (faults fault.Faults) {
	if s.Encrypted && s.Engine == cluster.PostgreSQL && o.HasEngine(s.Engine, s.Series) {
		faults.Add("encrypted", "PostgreSQL has no encryption of its own")
	}
	return faults
}

// valid is a spec without a fault.
func valid(engine cluster.Engine) cluster.Spec {
	series := map[cluster.Engine]string{cluster.PostgreSQL: "15", cluster.MySQL: "10.11"}[engine]
	return cluster.Spec{
		Label: "shop", Engine: engine, Series: series, Region: "local", Type: "g6-nanode-1", Size: 1, Updates: cluster.DefaultWindow(1),
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		engine cluster.Engine
		change func(*cluster.Spec)
		want   []string
	}{
		{"PostgreSQL", cluster.PostgreSQL, func(*cluster.Spec) {}, nil},
		{"MySQL", cluster.MySQL, func(*cluster.Spec) {}, nil},
		{"encrypted MySQL", cluster.MySQL, func(s *cluster.Spec) { s.Encrypted = true }, nil},
		{"encrypted PostgreSQL", cluster.PostgreSQL, func(s *cluster.Spec) { s.Encrypted = true }, []string{"encrypted: PostgreSQL has no encryption of its own"}},
		{"unknown engine", cluster.PostgreSQL, func(s *cluster.Spec) { s.Series = "9" }, []string{"engine: engine is not valid; offered: postgresql/15"}},
		{"unknown engine, encrypted", cluster.PostgreSQL, func(s *cluster.Spec) { s.Series, s.Encrypted = "9", true }, []string{"engine: engine is not valid; offered: postgresql/15"}},
		{"unknown region", cluster.MySQL, func(s *cluster.Spec) { s.Region = "us-east" }, []string{"region: region is not valid"}},
		{"unknown type", cluster.MySQL, func(s *cluster.Spec) { s.Type = "huge" }, []string{"type: type is not valid"}},
		{"two nodes", cluster.MySQL, func(s *cluster.Spec) { s.Size = 2 }, []string{"cluster_size: Must be one of 1, 3"}},
		{"no nodes", cluster.PostgreSQL, func(s *cluster.Spec) { s.Size = -1 }, []string{"cluster_size: Must be one of 1, 3"}},
		{"three nodes", cluster.PostgreSQL, func(s *cluster.Spec) { s.Size = 3 }, nil},
		{"three nodes, waiting for both", cluster.PostgreSQL, func(s *cluster.Spec) { s.Size, s.Commit = 3, cluster.CommitRemoteApply }, nil},
		{"three nodes of MySQL", cluster.MySQL, func(s *cluster.Spec) { s.Size = 3 }, nil},
		{"three nodes of MySQL that don't wait", cluster.MySQL, func(s *cluster.Spec) { s.Size, s.Replication = 3, cluster.Asynch }, nil},
		{"three nodes that wait for the log alone", cluster.PostgreSQL, func(s *cluster.Spec) { s.Size, s.Commit = 3, cluster.CommitRemoteWrite }, nil},
		{"three nodes that wait for the disk", cluster.PostgreSQL, func(s *cluster.Spec) { s.Size, s.Commit = 3, cluster.CommitOn }, nil},
		{"three nodes that wait for nothing", cluster.PostgreSQL, func(s *cluster.Spec) { s.Size, s.Commit = 3, cluster.CommitOff }, nil},
		{"three nodes without replication", cluster.MySQL, func(s *cluster.Spec) { s.Size, s.Replication = 3, cluster.ReplicationNone }, []string{"replication_type: Must be one of semi_synch, asynch for this cluster_size"}},
		{"three nodes, semi-synchronous PostgreSQL", cluster.PostgreSQL, func(s *cluster.Spec) { s.Size, s.Replication = 3, cluster.SemiSynch }, []string{"replication_type: Must be asynch for this cluster_size"}},
		{"one node that replicates", cluster.MySQL, func(s *cluster.Spec) { s.Replication = cluster.SemiSynch }, []string{"replication_type: Must be none for this cluster_size"}},
		{"one node that waits for others", cluster.PostgreSQL, func(s *cluster.Spec) { s.Commit = cluster.CommitRemoteWrite }, []string{"replication_commit_type: Must be one of local, on, off for this cluster_size"}},
		{"a commit type for MySQL", cluster.MySQL, func(s *cluster.Spec) { s.Commit = cluster.CommitRemoteWrite }, nil},
		{"everything wrong", cluster.PostgreSQL, func(s *cluster.Spec) {
			*s = cluster.Spec{Label: "a!", Engine: cluster.PostgreSQL, Series: "1", Region: "x", Type: "y", Size: 1, Commit: "z", Replication: "w", Updates: cluster.DefaultWindow(1)}
		}, []string{
			"label: Length must be 3-32 characters", "engine: engine is not valid; offered: postgresql/15", "region: region is not valid", "type: type is not valid",
			"replication_type: Must be none for this cluster_size", "replication_commit_type: Must be one of local, on, off for this cluster_size",
		}},
	} {
		spec := valid(c.engine)
		c.change(&spec)
		var got []string
		for _, f := range spec.WithDefaults().Validate(offer{}) {
			got = append(got, f.Error())
			if f.Kind != fault.Invalid {
				t.Errorf("%s: %+v", c.name, f)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		engine      cluster.Engine
		size        int
		replication cluster.Replication
		commit      cluster.Commit
	}{
		{cluster.MySQL, 1, cluster.ReplicationNone, ""},
		{cluster.MySQL, 3, cluster.SemiSynch, ""},
		{cluster.PostgreSQL, 1, cluster.ReplicationNone, cluster.CommitLocal},
		{cluster.PostgreSQL, 3, cluster.Asynch, cluster.CommitLocal},
	} {
		got := cluster.Spec{Engine: c.engine, Size: c.size}.WithDefaults()
		if got.Replication != c.replication || got.Commit != c.commit {
			t.Errorf("%s × %d: %q, %q", c.engine, c.size, got.Replication, got.Commit)
		}
		asked := cluster.Spec{Engine: cluster.PostgreSQL, Size: c.size, Replication: "x", Commit: "y"}
		if got := asked.WithDefaults(); got.Replication != "x" || got.Commit != "y" {
			t.Errorf("what was asked for is overwritten: %+v", got)
		}
	}
}

func TestLabel(t *testing.T) {
	t.Parallel()
	legal := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{2,31}$`)
	label := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_-]{0,40}`), rapid.String(), rapid.StringMatching(`[a-z]{2}.`))
	rapid.Check(t, func(t *rapid.T) {
		text := label.Draw(t, "label")
		faults := cluster.ValidateLabel(text)
		if (len(faults) == 0) != legal.MatchString(text) {
			t.Fatalf("%q: %v", text, faults)
		}
		for _, f := range faults {
			if f.Field != "label" {
				t.Fatalf("%+v", f)
			}
		}
	})
}

func TestWindow(t *testing.T) {
	t.Parallel()
	n := func(n int) *int { return &n }
	frequency := func(f cluster.Frequency) *cluster.Frequency { return &f }
	weekly := cluster.Window{Frequency: cluster.Weekly, Duration: 3, HourOfDay: 2, DayOfWeek: 5}
	monthly := cluster.Window{Frequency: cluster.Monthly, Duration: 1, HourOfDay: 0, DayOfWeek: 1, WeekOfMonth: n(4)}
	for _, c := range []struct {
		name   string
		from   cluster.Window
		change cluster.WindowChange
		want   cluster.Window
		faults []string
	}{
		{"nothing", weekly, cluster.WindowChange{}, weekly, nil},
		{"one key", weekly, cluster.WindowChange{HourOfDay: n(23)}, cluster.Window{Frequency: cluster.Weekly, Duration: 3, HourOfDay: 23, DayOfWeek: 5}, nil},
		{"to monthly", weekly, cluster.WindowChange{Frequency: frequency(cluster.Monthly), WeekOfMonth: n(1)}, cluster.Window{Frequency: cluster.Monthly, Duration: 3, HourOfDay: 2, DayOfWeek: 5, WeekOfMonth: n(1)}, nil},
		{"to monthly without its week", weekly, cluster.WindowChange{Frequency: frequency(cluster.Monthly)}, cluster.Window{Frequency: cluster.Monthly, Duration: 3, HourOfDay: 2, DayOfWeek: 5}, []string{"updates.week_of_month: updates.week_of_month is required when frequency is monthly"}},
		{"to weekly drops the week", monthly, cluster.WindowChange{Frequency: frequency(cluster.Weekly)}, cluster.Window{Frequency: cluster.Weekly, Duration: 1, DayOfWeek: 1}, nil},
		{"four hours", weekly, cluster.WindowChange{Duration: n(4)}, cluster.Window{Frequency: cluster.Weekly, Duration: 4, HourOfDay: 2, DayOfWeek: 5}, nil},
		{"monthly, its week taken away", monthly, cluster.WindowChange{NoWeek: true}, cluster.Window{Frequency: cluster.Monthly, Duration: 1, DayOfWeek: 1}, []string{"updates.week_of_month: updates.week_of_month is required when frequency is monthly"}},
		{"to weekly, with the week taken away", monthly, cluster.WindowChange{Frequency: frequency(cluster.Weekly), NoWeek: true}, cluster.Window{Frequency: cluster.Weekly, Duration: 1, DayOfWeek: 1}, nil},
		{"weekly with a week", weekly, cluster.WindowChange{WeekOfMonth: n(2)}, cluster.Window{Frequency: cluster.Weekly, Duration: 3, HourOfDay: 2, DayOfWeek: 5, WeekOfMonth: n(2)}, []string{"updates.week_of_month: Must be null when frequency is weekly"}},
		{
			"all wrong", monthly,
			cluster.WindowChange{Frequency: frequency("daily"), Duration: n(5), HourOfDay: n(24), DayOfWeek: n(0), WeekOfMonth: n(5)},
			cluster.Window{Frequency: "daily", Duration: 5, HourOfDay: 24, DayOfWeek: 0, WeekOfMonth: n(5)},
			[]string{
				"updates.frequency: Must be one of weekly, monthly", "updates.duration: Must be 1-4", "updates.hour_of_day: Must be 0-23",
				"updates.day_of_week: Must be 1-7", "updates.week_of_month: Must be 1-4",
			},
		},
	} {
		got := c.from.Merge(c.change)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
		var faults []string
		for _, f := range got.Validate() {
			faults = append(faults, f.Error())
		}
		if diff := cmp.Diff(c.faults, faults); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
	}
}

func TestDefaultWindowIsValidAndSpreads(t *testing.T) {
	t.Parallel()
	var days []int
	for id := range cluster.ID(70) {
		w := cluster.DefaultWindow(id)
		if faults := w.Validate(); len(faults) > 0 {
			t.Fatalf("%d: %v", id, faults)
		}
		days = append(days, w.DayOfWeek)
	}
	for day := 1; day <= 7; day++ {
		if !slices.Contains(days[:7], day) {
			t.Errorf("nothing on day %d", day)
		}
	}
}
