package kubernetes

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestWhatIsTriedAgain: an operator that is being updated refuses everything by its webhook (recorded: an internal error), which passes; what people have to
// do something about doesn't.
func TestWhatIsTriedAgain(t *testing.T) {
	t.Parallel()
	away := errors.New(`failed calling webhook "mcluster.cnpg.io": no endpoints available for service "cnpg-webhook-service"`)
	kind := schema.GroupResource{Group: "postgresql.cnpg.io", Resource: "clusters"}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewInternalError(away), false},
		{apierrors.NewServerTimeout(kind, "patch", 1), false},
		{apierrors.NewConflict(kind, "db-7-g1", away), true},
		{apierrors.NewForbidden(kind, "db-7-g1", away), true},
	} {
		if got := isPermanent(c.err); got != c.want {
			t.Errorf("%v is permanent: %v", c.err, got)
		}
	}
}
