package kubernetes

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"steward/internal/platform"
	"steward/internal/platform/kubernetes/cnpg"
)

// TestSwitchoversThatCount: one that never came about is forgotten, lest a failure passes for it.
func TestSwitchoversThatCount(t *testing.T) {
	t.Parallel()
	said := func(text string, timeline int, target string) view {
		return view{object: &cnpg.Cluster{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{switchoverAnnotation: text}},
			Status:     cnpg.ClusterStatus{TimelineID: timeline, CurrentPrimary: "db-7-g1-1", TargetPrimary: target},
		}}
	}
	for name, v := range map[string]struct {
		is   view
		want string
	}{
		"none":                    {said("", 1, "db-7-g1-1"), ""},
		"it has come about":       {said("2/0/1/db-7-g1-2", 2, "db-7-g1-1"), "2/0/1/db-7-g1-2"},
		"another followed":        {said("2/0/1/db-7-g1-2", 3, "db-7-g1-1"), "2/0/1/db-7-g1-2"},
		"it is on its way":        {said("2/0/1/db-7-g1-2", 1, "db-7-g1-2"), "2/0/1/db-7-g1-2"},
		"it never came about":     {said("2/0/1/db-7-g1-2", 1, "db-7-g1-1"), ""},
		"nothing that we wrote":   {said("2/none/1/db-7-g1-2", 2, ""), ""},
		"nothing of the kind":     {said("yes", 2, ""), ""},
		"there is no object, yet": {view{}, ""},
	} {
		if h, to := (&Driver{}).switchover(t.Context(), platform.Wanted{}, v.is); h.String() != v.want || to != "" {
			t.Errorf("%s: %q and %q, want %q", name, h, to, v.want)
		}
	}
}

// TestOneSwitchover: one that came about isn't asked for again, though a Pod is missing and the others have its ordinals.
func TestOneSwitchover(t *testing.T) {
	t.Parallel()
	is := view{object: &cnpg.Cluster{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{switchoverAnnotation: "3/0/1/db-7-g1-3"}},
		Spec:       cnpg.ClusterSpec{Instances: 3},
		Status:     cnpg.ClusterStatus{TimelineID: 3, CurrentPrimary: "db-7-g1-3", TargetPrimary: "db-7-g1-3"},
	}}
	want := platform.Wanted{Switchover: new(0)}
	want.Size = 3
	for _, missing := range []bool{false, true} {
		if missing { // nor is one begun then
			is.postgres().Status.TimelineID = 4
		}
		if h, to := (&Driver{}).switchover(t.Context(), want, is); h.String() != "3/0/1/db-7-g1-3" || to != "" {
			t.Errorf("%q to %q", h, to)
		}
	}
}

// TestSuccessor: it is the one that is the least behind, of those that follow.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	node := func(ordinal int, streaming bool, behind int64) platform.Node {
		return platform.Node{Ordinal: ordinal, Running: true, Streaming: streaming, LagBytes: &behind}
	}
	for want, replicas := range map[int][]platform.Node{
		-1: {node(1, false, 0), {Ordinal: 2}},
		2:  {node(1, true, 5), node(2, true, 4), node(3, false, 0)},
		1:  {node(2, true, 4), node(1, true, 4), {Ordinal: 3, Running: true, Streaming: true}},
	} {
		if got := successorOf(replicas); (got == nil) != (want < 0) || got != nil && got.Ordinal != want {
			t.Errorf("%+v: %+v, want %d", replicas, got, want)
		}
	}
}
