package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/insight"
	"steward/internal/logical"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// shapeTime bounds a change of what is inside a database: copying a template takes a checkpoint on older servers.
const shapeTime = 25 * time.Second

// Logical are the use cases of logical databases and their users. Servers have them, and nothing else does.
type Logical struct{ clusterChanges }

// look has work see what is inside a database; it isn't woken by it.
func (s *Logical) look(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, work func(ctx context.Context, l platform.Logical) error) error {
	c, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id)
	if err != nil {
		return err
	}
	if err := cluster.Require(c.Status, cluster.RequestLook); err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	return s.insideFailed(ctx, s.Platform.Inside(short, id, work), "look inside", id)
}

// allowed is a database that the caller may change, and that can be changed inside now.
func (s *Logical) allowed(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) (cluster.Cluster, error) {
	c, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id)
	if err != nil {
		return c, err
	}
	if err := s.mayWrite(ctx, p, id); err != nil {
		return c, err
	}
	return c, cluster.Require(c.Status, cluster.RequestShape)
}

// shape has work change what is inside a database, and tells of it.
func (s *Logical) shape(ctx context.Context, p account.Principal, c cluster.Cluster, action operation.Action, what string, work func(ctx context.Context, l platform.Logical) error) error {
	short, cancel := context.WithTimeout(ctx, shapeTime)
	defer cancel()
	if err := s.insideFailed(ctx, s.Platform.Inside(short, c.ID, work), "change what is inside", c.ID); err != nil {
		return err
	}
	return s.told(ctx, p, c, action, what)
}

// told records what was changed inside a database.
func (s *Logical) told(ctx context.Context, p account.Principal, c cluster.Cluster, action operation.Action, what string) error {
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		_, err := tx.CreateOperation(ctx, operation.Operation{
			Account: c.Account, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Action: action, Status: operation.Finished, Username: p.User.Username, Message: what,
		})
		return err
	})
}

// insideFailed is what a caller is told of a failure: faults as they are.
func (s *Logical) insideFailed(ctx context.Context, err error, what string, id cluster.ID) error {
	if _, isFault := fault.All(err); err == nil || isFault {
		return err
	}
	return s.lookFailed(ctx, err, what, id)
}

// Databases are a server's logical databases, by name.
func (s *Logical) Databases(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) (all []logical.Database, err error) {
	err = s.look(ctx, p, engine, id, func(ctx context.Context, l platform.Logical) (err error) {
		all, err = l.Databases(ctx)
		return err
	})
	return all, err
}

// CreateDatabase makes a logical database.
func (s *Logical) CreateDatabase(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, d logical.Database, faults fault.Faults) (made logical.Database, err error) {
	c, err := s.allowed(ctx, p, engine, id)
	if err != nil {
		return made, err
	}
	var found fault.Faults
	if f := logical.CheckDatabase(engine, "name", d.Name); f != nil {
		found = append(found, f)
	}
	if d.Owner != "" && engine != cluster.PostgreSQL {
		found.Add("owner", "MariaDB's and MySQL's databases have no owner; grant a user the privilege owner")
	}
	if d.Owner != "" && d.Owner != logical.Root && logical.Reserved(engine, d.Owner) {
		found = append(found, fault.NotValid("owner"))
	}
	if faults = combine(faults, found); len(faults) > 0 {
		return made, faults
	}
	err = s.shape(ctx, p, c, operation.LogicalCreate, "The logical database "+insight.Name(d.Name)+" was created.", func(ctx context.Context, l platform.Logical) error {
		if err := l.CreateDatabase(ctx, d); err != nil {
			return err
		}
		all, err := l.Databases(ctx)
		i := slices.IndexFunc(all, func(other logical.Database) bool { return other.Name == d.Name })
		if err == nil && i < 0 {
			return fault.NewPrecondition("The database was created, and is gone again: somebody else has dropped it.")
		}
		if err == nil {
			made = all[i]
		}
		return err
	})
	return made, err
}

// Database is one logical database.
func (s *Logical) Database(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, name string) (logical.Database, error) {
	all, err := s.Databases(ctx, p, engine, id)
	if err != nil {
		return logical.Database{}, err
	}
	return only(all, func(d logical.Database) bool { return d.Name == name })
}

// only is the one that is meant.
func only[T any](all []T, is func(T) bool) (one T, err error) {
	i := slices.IndexFunc(all, is)
	if i < 0 {
		return one, fault.NewNotFound()
	}
	return all[i], nil
}

// DeleteDatabase removes a logical database with all its data.
func (s *Logical) DeleteDatabase(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, name string) error {
	c, err := s.allowed(ctx, p, engine, id)
	if err != nil {
		return err
	}
	return s.shape(ctx, p, c, operation.LogicalDelete, "The logical database "+insight.Name(name)+" was deleted.", func(ctx context.Context, l platform.Logical) error {
		return l.DropDatabase(ctx, name)
	})
}

// Users are those that log in to a server, but the root user, by name.
func (s *Logical) Users(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) (all []logical.User, err error) {
	err = s.look(ctx, p, engine, id, func(ctx context.Context, l platform.Logical) (err error) {
		all, err = l.Users(ctx)
		return err
	})
	return all, err
}

// User is one of them.
func (s *Logical) User(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, name string) (logical.User, error) {
	all, err := s.Users(ctx, p, engine, id)
	if err != nil {
		return logical.User{}, err
	}
	return only(all, func(u logical.User) bool { return u.Name == name })
}

// CreateUser makes a user and its password, which is told this once.
func (s *Logical) CreateUser(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, u logical.User, faults fault.Faults) (made logical.User, password string, err error) {
	c, err := s.allowed(ctx, p, engine, id)
	if err != nil {
		return made, "", err
	}
	found := logical.CheckGrants("grants", u.Grants)
	if f := logical.CheckUser(engine, "username", u.Name); f != nil {
		found = append(found, f)
	}
	if faults = combine(faults, found); len(faults) > 0 {
		return made, "", faults
	}
	secret, err := newPassword()
	if err != nil {
		return made, "", err
	}
	err = s.shape(ctx, p, c, operation.UserCreate, "The user "+insight.Name(u.Name)+" was created.", func(ctx context.Context, l platform.Logical) error {
		if err := l.CreateUser(ctx, u, string(secret)); err != nil {
			return err
		}
		made, err = shownUser(ctx, l, u.Name)
		return err
	})
	return made, string(secret), err
}

// shownUser is a user as the server has it.
func shownUser(ctx context.Context, l platform.Logical, name string) (logical.User, error) {
	all, err := l.Users(ctx)
	if err != nil {
		return logical.User{}, err
	}
	return only(all, func(u logical.User) bool { return u.Name == name })
}

// changeUser is the frame of what changes a user that there is.
func (s *Logical) changeUser(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, name string, action operation.Action, what string, faults fault.Faults,
	work func(ctx context.Context, l platform.Logical) error,
) error {
	c, err := s.allowed(ctx, p, engine, id)
	switch {
	case err != nil:
		return err
	case logical.Reserved(engine, name):
		return fault.NewNotFound()
	case len(faults) > 0:
		return faults
	}
	return s.shape(ctx, p, c, action, fmt.Sprintf("The user %s was %s.", insight.Name(name), what), work)
}

// UpdateUser gives a user other grants; nil leaves them.
func (s *Logical) UpdateUser(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, name string, grants *[]logical.Grant, faults fault.Faults) (changed logical.User, err error) {
	if grants != nil {
		faults = combine(faults, logical.CheckGrants("grants", *grants))
	}
	err = s.changeUser(ctx, p, engine, id, name, operation.UserUpdate, "given grants", faults, func(ctx context.Context, l platform.Logical) error {
		if grants != nil {
			if err := l.SetGrants(ctx, name, *grants); err != nil {
				return err
			}
		}
		changed, err = shownUser(ctx, l, name)
		return err
	})
	return changed, err
}

// ResetUser gives a user a new password, which is told this once, and ends its sessions.
func (s *Logical) ResetUser(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, name string) (string, error) {
	secret, err := newPassword()
	if err != nil {
		return "", err
	}
	err = s.changeUser(ctx, p, engine, id, name, operation.UserReset, "given a new password", nil, func(ctx context.Context, l platform.Logical) error {
		return l.SetUserPassword(ctx, name, string(secret))
	})
	if err != nil {
		return "", err
	}
	s.endUser(ctx, id, name)
	return string(secret), nil
}

// DeleteUser removes a user that owns nothing, and ends its sessions.
func (s *Logical) DeleteUser(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, name string) error {
	err := s.changeUser(ctx, p, engine, id, name, operation.UserDelete, "deleted", nil, func(ctx context.Context, l platform.Logical) error {
		return l.DropUser(ctx, name)
	})
	if err == nil {
		s.endUser(ctx, id, name)
	}
	return err
}

// endUser ends the sessions of a user whose password isn't good any more. A node that doesn't answer keeps its own.
func (s *Logical) endUser(ctx context.Context, id cluster.ID, name string) {
	short, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if err := s.Platform.EndUser(short, id, name); err != nil {
		s.Logger.WarnContext(ctx, "a user's sessions may live on", "cluster_id", int64(id), "error", err)
	}
}
