package kubernetes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"steward/internal/platform/kubernetes"
)

// TestRole: the role that users apply is what the program tells of, and a test of the platform has each of its verbs be used.
func TestRole(t *testing.T) {
	t.Parallel()
	var role rbacv1.Role
	if err := yaml.Unmarshal(readFile(t, "../../deploy/kubernetes/role.yaml"), &role); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(kubernetes.Rights(), role.Rules); diff != "" {
		t.Errorf("-what steward does +role.yaml\n%s", diff)
	}
}
