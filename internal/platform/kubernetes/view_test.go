package kubernetes

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/cluster"
)

// TestQuestionsAreOfOneCluster: what is asked at once for two clusters is of the one that it is asked for, whatever the client makes of options.
func TestQuestionsAreOfOneCluster(t *testing.T) {
	t.Parallel()
	ask := func(id cluster.ID) *client.ListOptions {
		return (&client.ListOptions{}).ApplyOptions([]client.ListOption{of(id), fromMemory{}})
	}
	one := ask(1).AsListOptions()
	two := ask(2).AsListOptions()
	if one.LabelSelector != clusterLabel+"=1" || two.LabelSelector != clusterLabel+"=2" || one.ResourceVersion != "0" || two.ResourceVersion != "0" {
		t.Errorf("asked %+v and %+v", one, two)
	}
}
