package kubernetes

import (
	"context"

	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/migration"
	"steward/internal/platform"
)

// Examine implements platform.Importer: the programs that it takes run beside servers, where steward isn't.
func (*Driver) Examine(context.Context, cluster.ID, platform.ImportSource, migration.Mode, []migration.Database) (migration.Report, error) {
	return migration.Report{}, fault.NewPrecondition("%s", platform.NoImports)
}

// Import implements platform.Importer.
func (*Driver) Import(context.Context, cluster.ID, platform.ImportSource, migration.Database, func(platform.ImportProgress)) error {
	return &platform.CustomerError{Reason: platform.NoImports}
}

// Empty implements platform.Importer.
func (*Driver) Empty(context.Context, cluster.ID, string) (bool, error) {
	return false, fault.NewPrecondition("%s", platform.NoImports)
}

// KeepUp implements platform.Importer.
func (*Driver) KeepUp(context.Context, cluster.ID, platform.ImportSource, migration.Database, <-chan struct{}, func(platform.ImportProgress)) error {
	return &platform.CustomerError{Reason: platform.NoImports}
}

// Complete implements platform.Importer.
func (*Driver) Complete(context.Context, cluster.ID, migration.Database, func(platform.ImportProgress)) error {
	return &platform.CustomerError{Reason: platform.NoImports}
}

// Release implements platform.Importer: nothing was followed.
func (*Driver) Release(context.Context, cluster.Cluster, platform.ImportSource, migration.Database) error {
	return nil
}

// Leftovers implements platform.Importer.
func (*Driver) Leftovers(cluster.Cluster, migration.Database) string { return "" }
