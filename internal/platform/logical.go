package platform

import (
	"context"

	"steward/internal/cluster"
	"steward/internal/logical"
)

// Logical are the logical databases and users of a cluster's primary. engine.Logical says what each method does; that type
// isn't for callers of a platform.
type Logical interface {
	Databases(ctx context.Context) ([]logical.Database, error)
	CreateDatabase(ctx context.Context, d logical.Database) error
	DropDatabase(ctx context.Context, name string) error
	Users(ctx context.Context) ([]logical.User, error)
	CreateUser(ctx context.Context, u logical.User, password string) error
	SetGrants(ctx context.Context, user string, grants []logical.Grant) error
	SetUserPassword(ctx context.Context, user, password string) error
	DropUser(ctx context.Context, user string) error
}

// Extensions are those of one database of a cluster's primary.
type Extensions interface {
	Extensions(ctx context.Context) ([]logical.Extension, error)
	// CreateExtension makes one in a schema, the usual one when that is "", with all that it needs.
	CreateExtension(ctx context.Context, name, schema string) error
	// UpdateExtension brings one to a version, the one that is there when it is "".
	UpdateExtension(ctx context.Context, name, version string) error
	// DropExtension removes one; cascade removes what depends on it, too.
	DropExtension(ctx context.Context, name string, cascade bool) error
}

// Shaper is the part of a Driver that changes what lies inside clusters, by SQL, as their owners could do themselves. It holds
// no lease, since the servers order what is done to them, and wakes no cluster that sleeps. Callers bound the time.
type Shaper interface {
	// Inside lets work see and change what is inside a cluster's primary. Of a cluster that sleeps it does nothing, and
	// says so with a fault.
	Inside(ctx context.Context, id cluster.ID, work func(ctx context.Context, l Logical) error) error
	// Extend lets work see and change the extensions of a database, with the rights of the root user.
	Extend(ctx context.Context, id cluster.ID, database string, work func(ctx context.Context, e Extensions) error) error
	// EndUser ends a user's sessions on all nodes that answer.
	EndUser(ctx context.Context, id cluster.ID, user string) error
}
