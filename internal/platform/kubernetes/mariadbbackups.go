package kubernetes

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes/barman"
	"steward/internal/platform/kubernetes/mariadb"
)

func (mariaDBOperator) archives() bool { return false }

func (mariaDBOperator) take(context.Context, *barman.Store, platform.Wanted, view, backup.ID, cluster.Role) (platform.Kept, error) {
	return platform.Kept{}, errNoStore
}

func (mariaDBOperator) asked() client.Object { return &mariadb.MariaDB{} }

func (mariaDBOperator) dropFiles(context.Context, *barman.Store, reference) error { return errNoStore }

func (mariaDBOperator) prune(context.Context, *barman.Store, cluster.Cluster, []reference) error {
	return errNoStore
}

func (mariaDBOperator) begin(context.Context, *desired, platform.KeptSource, reference) (time.Time, error) {
	return time.Time{}, errNoStore
}

func (mariaDBOperator) keep(*desired, object) {}

func (mariaDBOperator) mayWrite(view, *corev1.Pod) bool { return false }

func (mariaDBOperator) failures(context.Context, view) (int, error) { return 0, nil }

func (mariaDBOperator) takeOver(context.Context, names, engine.Node) error { return errNoStore }
