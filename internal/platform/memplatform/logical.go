package memplatform

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/logical"
	"steward/internal/platform"
)

// LogicalUser is a user of a cluster, with a password.
type LogicalUser struct {
	logical.User
	Password string
	// Ended counts how often the user's sessions were ended.
	Ended int
}

// Inside implements platform.Shaper.
func (d *Driver) Inside(ctx context.Context, id cluster.ID, work func(ctx context.Context, l platform.Logical) error) error {
	c, _ := d.world.Cluster(id)
	if c.Suspended || !c.SleepingSince.IsZero() {
		return fault.NewPrecondition("%s", platform.SleepsReason)
	}
	return d.faults.around(ctx, StepInside, id, func() error {
		if !c.up(c.Primary) {
			return errDown
		}
		return work(ctx, contents{d, id})
	})
}

// Extend implements platform.Shaper.
func (d *Driver) Extend(ctx context.Context, id cluster.ID, database string, work func(ctx context.Context, e platform.Extensions) error) error {
	return d.Inside(ctx, id, func(ctx context.Context, l platform.Logical) error {
		return work(ctx, extensions{l.(contents), database})
	})
}

// extensions are those of a database.
type extensions struct {
	contents
	database string
}

func (e extensions) editOne(name string, f func(*logical.Extension) error) error {
	return e.edit(func(in *Inside) error {
		if !in.has(e.database) {
			return logical.NoDatabase("database", e.database)
		}
		in.Extensions = slices.Clone(in.Extensions)
		for i := range in.Extensions {
			if in.Extensions[i].Name == name {
				return f(&in.Extensions[i])
			}
		}
		return fault.NewNotFound()
	})
}

// Extensions implements platform.Extensions.
func (e extensions) Extensions(context.Context) (all []logical.Extension, err error) {
	err = e.edit(func(in *Inside) error {
		if !in.has(e.database) {
			return logical.NoDatabase("database", e.database)
		}
		all = slices.Clone(in.Extensions)
		return nil
	})
	return all, err
}

// CreateExtension implements platform.Extensions.
func (e extensions) CreateExtension(_ context.Context, name, schema string) error {
	return e.editOne(name, func(x *logical.Extension) error {
		if x.Installed != "" {
			return logical.Taken("name")
		}
		x.Installed, x.Schema = x.Version, cmp.Or(schema, "public")
		return nil
	})
}

// UpdateExtension implements platform.Extensions.
func (e extensions) UpdateExtension(_ context.Context, name, version string) error {
	return e.editOne(name, func(x *logical.Extension) error {
		x.Installed = cmp.Or(version, x.Version)
		return nil
	})
}

// DropExtension implements platform.Extensions.
func (e extensions) DropExtension(_ context.Context, name string, _ bool) error {
	return e.editOne(name, func(x *logical.Extension) error {
		if x.Installed == "" {
			return fault.NewNotFound()
		}
		x.Installed, x.Schema = "", ""
		return nil
	})
}

// EndUser implements platform.Shaper.
func (d *Driver) EndUser(_ context.Context, id cluster.ID, user string) error {
	return contents{d, id}.editUser(user, func(_ *Inside, u *LogicalUser) error {
		u.Ended++
		return nil
	})
}

// contents are what is inside a cluster.
type contents struct {
	d  *Driver
	id cluster.ID
}

func (c contents) edit(f func(in *Inside) error) error {
	var err error
	changed := c.d.change(c.id, func(c *Cluster) {
		if c.Inside.Databases == nil {
			c.Inside.Databases = []logical.Database{{Name: "defaultdb", Owner: logical.Root, Encoding: "UTF8", Collation: "C"}}
		}
		err = f(&c.Inside)
	})
	return errors.Join(changed, err)
}

func (c contents) editUser(user string, f func(*Inside, *LogicalUser) error) error {
	return c.edit(func(in *Inside) error {
		i := slices.IndexFunc(in.Users, func(u LogicalUser) bool { return u.Name == user })
		if i < 0 {
			return fault.NewNotFound()
		}
		in.Users = slices.Clone(in.Users)
		return f(in, &in.Users[i])
	})
}

// Databases implements platform.Logical.
func (c contents) Databases(context.Context) (all []logical.Database, err error) {
	err = c.edit(func(in *Inside) error {
		all = slices.Clone(in.Databases)
		return nil
	})
	return all, err
}

func (in *Inside) has(database string) bool {
	return slices.ContainsFunc(in.Databases, func(d logical.Database) bool { return d.Name == database })
}

// CreateDatabase implements platform.Logical.
func (c contents) CreateDatabase(_ context.Context, d logical.Database) error {
	return c.edit(func(in *Inside) error {
		if in.Coming == d.Name {
			in.Coming, in.Databases = "", append(slices.Clone(in.Databases), d)
		}
		if in.has(d.Name) {
			return logical.Taken("name")
		}
		d.Owner, d.Encoding, d.Collation = cmp.Or(d.Owner, logical.Root), cmp.Or(d.Encoding, "UTF8"), cmp.Or(d.Collation, "C")
		in.Databases = append(slices.Clone(in.Databases), d)
		return nil
	})
}

// DropDatabase implements platform.Logical.
func (c contents) DropDatabase(_ context.Context, name string) error {
	return c.edit(func(in *Inside) error {
		if !in.has(name) {
			return fault.NewNotFound()
		}
		in.Databases = slices.DeleteFunc(slices.Clone(in.Databases), func(d logical.Database) bool { return d.Name == name })
		return nil
	})
}

// Users implements platform.Logical.
func (c contents) Users(context.Context) (all []logical.User, err error) {
	err = c.edit(func(in *Inside) error {
		for _, u := range in.Users {
			all = append(all, u.User)
		}
		return nil
	})
	return all, err
}

func (in *Inside) check(grants []logical.Grant) error {
	var faults fault.Faults
	for _, g := range grants {
		if !in.has(g.Database) {
			faults = append(faults, logical.NoDatabase("grants", g.Database))
		}
	}
	return faults.Err()
}

// CreateUser implements platform.Logical.
func (c contents) CreateUser(_ context.Context, u logical.User, password string) error {
	return c.edit(func(in *Inside) error {
		if slices.ContainsFunc(in.Users, func(other LogicalUser) bool { return other.Name == u.Name }) {
			return logical.Taken("username")
		}
		if err := in.check(u.Grants); err != nil {
			return err
		}
		in.Users = append(slices.Clone(in.Users), LogicalUser{User: u, Password: password})
		return nil
	})
}

// SetGrants implements platform.Logical.
func (c contents) SetGrants(_ context.Context, user string, grants []logical.Grant) error {
	return c.editUser(user, func(in *Inside, u *LogicalUser) error {
		if err := in.check(grants); err != nil {
			return err
		}
		u.Grants = grants
		return nil
	})
}

// SetUserPassword implements platform.Logical.
func (c contents) SetUserPassword(_ context.Context, user, password string) error {
	return c.editUser(user, func(_ *Inside, u *LogicalUser) error {
		u.Password = password
		return nil
	})
}

// DropUser implements platform.Logical.
func (c contents) DropUser(_ context.Context, user string) error {
	return c.edit(func(in *Inside) error {
		before := len(in.Users)
		if in.Users = slices.DeleteFunc(slices.Clone(in.Users), func(u LogicalUser) bool { return u.Name == user }); len(in.Users) == before {
			return fault.NewNotFound()
		}
		return nil
	})
}
