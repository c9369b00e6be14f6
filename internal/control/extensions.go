package control

import (
	"context"
	"strings"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/insight"
	"steward/internal/logical"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// longestNameInside is how many bytes a name inside a server may have.
const longestNameInside = 63

// nameInside names what is wrong with the name of something that is looked for in a server.
func nameInside(field, name string) (faults fault.Faults) {
	if name == "" || len(name) > longestNameInside || strings.ContainsRune(name, 0) {
		faults.Add(field, "Must be 1-%d bytes long", longestNameInside)
	}
	return faults
}

// Extensions are those that a PostgreSQL server offers, and those that are in one of its databases, by name.
func (s *Logical) Extensions(ctx context.Context, p account.Principal, id cluster.ID, database string, faults fault.Faults) (all []logical.Extension, err error) {
	c, err := s.Store.Cluster(ctx, store.ViewerOf(p), cluster.PostgreSQL, id)
	if err != nil {
		return nil, err
	}
	if err := cluster.Require(c.Status, cluster.RequestLook); err != nil {
		return nil, err
	}
	if faults = combine(faults, nameInside("database", database)); len(faults) > 0 {
		return nil, faults
	}
	short, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	err = s.Platform.Extend(short, id, database, func(ctx context.Context, e platform.Extensions) (err error) {
		all, err = e.Extensions(ctx)
		return err
	})
	return all, s.insideFailed(ctx, err, "list extensions", id)
}

// AskedExtension is one of a database that is to be made, changed or dropped.
type AskedExtension struct {
	Database, Name string
	// Schema is where it is made, "" for the usual; Version what it is brought to, "" for the one that is there. Cascade reports whether what
	// depends on it is dropped, too.
	Schema, Version string
	Cascade         bool
}

// CreateExtension makes an extension, with all that it needs.
func (s *Logical) CreateExtension(ctx context.Context, p account.Principal, id cluster.ID, in AskedExtension, faults fault.Faults) (logical.Extension, error) {
	faults = combine(faults, nameInside("name", in.Name))
	if in.Schema != "" {
		faults = combine(faults, nameInside("schema", in.Schema))
	}
	return s.changeExtension(ctx, p, id, in, operation.ExtensionCreate, "created", faults, func(ctx context.Context, e platform.Extensions) error {
		return e.CreateExtension(ctx, in.Name, in.Schema)
	})
}

// UpdateExtension brings an extension to a version.
func (s *Logical) UpdateExtension(ctx context.Context, p account.Principal, id cluster.ID, in AskedExtension, faults fault.Faults) (logical.Extension, error) {
	return s.changeExtension(ctx, p, id, in, operation.ExtensionUpdate, "updated", faults, func(ctx context.Context, e platform.Extensions) error {
		return e.UpdateExtension(ctx, in.Name, in.Version)
	})
}

// DropExtension removes an extension from a database.
func (s *Logical) DropExtension(ctx context.Context, p account.Principal, id cluster.ID, in AskedExtension, faults fault.Faults) error {
	_, err := s.changeExtension(ctx, p, id, in, operation.ExtensionDelete, "dropped", faults, func(ctx context.Context, e platform.Extensions) error {
		return e.DropExtension(ctx, in.Name, in.Cascade)
	})
	return err
}

// changeExtension is the frame of all that changes an extension, and tells of it. What it answers is the extension afterwards.
func (s *Logical) changeExtension(ctx context.Context, p account.Principal, id cluster.ID, in AskedExtension, action operation.Action, what string, faults fault.Faults,
	work func(ctx context.Context, e platform.Extensions) error,
) (changed logical.Extension, err error) {
	c, err := s.allowed(ctx, p, cluster.PostgreSQL, id)
	if err != nil {
		return changed, err
	}
	if faults = combine(faults, nameInside("database", in.Database)); len(faults) > 0 {
		return changed, faults
	}
	short, cancel := context.WithTimeout(ctx, shapeTime)
	defer cancel()
	err = s.Platform.Extend(short, id, in.Database, func(ctx context.Context, e platform.Extensions) error {
		if err := work(ctx, e); err != nil {
			return err
		}
		all, err := e.Extensions(ctx)
		for _, x := range all {
			if x.Name == in.Name {
				changed = x
			}
		}
		return err
	})
	if err = s.insideFailed(ctx, err, "change extensions", id); err != nil {
		return changed, err
	}
	return changed, s.told(ctx, p, c, action, "The extension "+insight.Name(in.Name)+" of the logical database "+insight.Name(in.Database)+" was "+what+".")
}
