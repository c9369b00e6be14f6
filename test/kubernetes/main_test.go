// Package kubernetes drives the built binary with a region on Kubernetes: a real API server with RBAC, real PostgreSQL, and a
// simulated operator between them.
package kubernetes

import (
	"os"
	"testing"

	"steward/internal/kubetest"
	"steward/test/harness"
)

func TestMain(m *testing.M) {
	code := m.Run()
	kubetest.Stop()
	harness.RemoveBinaries()
	os.Exit(code)
}
