package engine

import (
	"context"

	"steward/internal/catalog"
	"steward/internal/logical"
)

// Shaped is implemented by drivers: Logical is what lies inside a primary. It asks nothing by itself.
type Shaped interface {
	Logical(n Node) Logical
}

// Extensible is implemented by drivers whose servers have extensions. Those of a database are asked and changed by dbadmin, with
// n.RootPassword, who is no more than its customers let it be.
type Extensible interface {
	Extensions(n Node, database string) Extensions
	// Catalog are the extensions that come with an installation, by name.
	Catalog(inst Installation) ([]catalog.Extension, error)
}

// Extensions are those of one database; see platform.Extensions.
type Extensions interface {
	Extensions(ctx context.Context) ([]logical.Extension, error)
	CreateExtension(ctx context.Context, name, schema string) error
	UpdateExtension(ctx context.Context, name, version string) error
	DropExtension(ctx context.Context, name string, cascade bool) error
}

// Logical are the logical databases and users of one server, which is a primary but for EndUser. What customers make by SQL
// is there, too, and what is made here they can change by SQL: nothing is kept elsewhere. Faults are for customers, with the
// fields of their requests; each method ends with its context, and can be called again after one that ended midway.
type Logical interface {
	// Databases are customers', by name.
	Databases(ctx context.Context) ([]logical.Database, error)
	// CreateDatabase makes one. Who is killed meanwhile may leave one that all users of the server may connect to.
	CreateDatabase(ctx context.Context, d logical.Database) error
	// DropDatabase removes one with all its data and ends its sessions; fault.NotFound when there is none such.
	DropDatabase(ctx context.Context, name string) error
	// Users are customers', but the root user, by name. Their grants are by database.
	Users(ctx context.Context) ([]logical.User, error)
	// CreateUser makes one that may log in with the password.
	CreateUser(ctx context.Context, u logical.User, password string) error
	// SetGrants gives a user these grants, and takes those that it has in other databases.
	SetGrants(ctx context.Context, user string, grants []logical.Grant) error
	// SetUserPassword gives a user another password.
	SetUserPassword(ctx context.Context, user, password string) error
	// DropUser removes one that owns nothing.
	DropUser(ctx context.Context, user string) error
	// EndUser ends a user's sessions on this server, primary or not.
	EndUser(ctx context.Context, user string) error
}
