package kubernetes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"steward/internal/platform/kubernetes/cnpg"
)

// TestCrashes: what ended within its Pod on nobody's request counts, and what Kubernetes lost the end of.
func TestCrashes(t *testing.T) {
	t.Parallel()
	ended := func(code int32) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: code}
	}
	for name, c := range map[string]struct {
		restarts int32
		last     *corev1.ContainerStateTerminated
		want     int
	}{
		"its first life":        {0, nil, 0},
		"its server ended":      {1, ended(1), 1},
		"it was killed":         {4, ended(137), 4},
		"it handed over":        {5, ended(0), 0},
		"nobody knows any more": {6, nil, 6},
	} {
		p := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "plugin", RestartCount: 9},
			{Name: cnpg.Container, RestartCount: c.restarts, LastTerminationState: corev1.ContainerState{Terminated: c.last}},
		}}}
		if got := crashes(p); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if crashes(&corev1.Pod{}) != 0 {
		t.Error("one that has no container yet has crashed")
	}
}
