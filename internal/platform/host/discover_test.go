package host

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// TestBuildsComeAndGo: a build that comes counts at once, one that goes when it
// was missed twice in a row.
func TestBuildsComeAndGo(t *testing.T) {
	t.Parallel()
	pg := func(versions ...string) (list []engine.Installation) {
		for _, v := range versions {
			list = append(list, engine.Installation{Flavour: engine.FlavourPostgreSQL, Series: "15", Version: v, Builder: "debian"})
		}
		return list
	}
	versions := func(all []engine.Installation) (list []string) {
		for _, i := range all {
			list = append(list, i.Version)
		}
		return list
	}
	s := discovery{found: pg("15.17")}
	for _, step := range []struct {
		name                    string
		found, all, added, gone []string
	}{
		{"as before", []string{"15.17"}, []string{"15.17"}, nil, nil},
		{"a newer one comes", []string{"15.17", "15.18"}, []string{"15.17", "15.18"}, []string{"15.18"}, nil},
		{"missed once", []string{"15.18"}, []string{"15.18", "15.17"}, nil, nil},
		{"there again", []string{"15.17", "15.18"}, []string{"15.17", "15.18"}, nil, nil},
		{"missed once more", []string{"15.18"}, []string{"15.18", "15.17"}, nil, nil},
		{"missed twice", []string{"15.18"}, []string{"15.18"}, nil, []string{"15.17"}},
		{"nothing is found", nil, []string{"15.18"}, nil, nil},
		{"all is gone", nil, nil, nil, []string{"15.18"}},
	} {
		added, gone := s.take(pg(step.found...), time.Time{})
		got := [][]string{versions(s.found), versions(added), versions(gone)}
		if diff := cmp.Diff([][]string{step.all, step.added, step.gone}, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", step.name, diff)
		}
	}
}

// TestTasksOfNodes become one task of each kind.
func TestTasksOfNodes(t *testing.T) {
	t.Parallel()
	soon, later := time.Unix(1000, 0), time.Unix(2000, 0)
	var all pending
	for _, task := range []cluster.Task{
		{Kind: cluster.TaskUpdate, From: "15.9", To: "15.18"},
		{Kind: cluster.TaskCertificate, Deadline: &later},
		{Kind: cluster.TaskUpdate, From: "15.10", To: "15.18"},
		{Kind: cluster.TaskCertificate, Deadline: &soon},
		{Kind: cluster.TaskUpdate, From: "15.8", To: "15.18"},
		{Kind: cluster.TaskRestart},
		{Kind: cluster.TaskRestart},
	} {
		all.add(task)
	}
	want := pending{{Kind: cluster.TaskUpdate, From: "15.8", To: "15.18"}, {Kind: cluster.TaskCertificate, Deadline: &soon}, {Kind: cluster.TaskRestart}}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
}
