package control

import (
	"context"
	"slices"
	"strings"

	"steward/internal/account"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/insight"
	"steward/internal/logical"
	"steward/internal/operation"
	"steward/internal/parameter"
	"steward/internal/platform"
	"steward/internal/store"
)

// PoolAbility is what the pooler of this host can do.
type PoolAbility struct {
	// Missing is why there can be no pools; nil when there can.
	Missing error
	// Prepares reports whether clients can use prepared statements while they share connections.
	Prepares bool
}

// Pools are the use cases of connection pools, which PostgreSQL's databases alone have.
type Pools struct{ clusterChanges }

// List are a database's pools, by label.
func (s *Pools) List(ctx context.Context, p account.Principal, id cluster.ID) ([]cluster.Pool, error) {
	c, err := s.Store.Cluster(ctx, store.ViewerOf(p), cluster.PostgreSQL, id)
	return c.Pools, err
}

// View is one of them.
func (s *Pools) View(ctx context.Context, p account.Principal, id cluster.ID, label string) (cluster.Pool, error) {
	all, err := s.List(ctx, p, id)
	if err != nil {
		return cluster.Pool{}, err
	}
	return only(all, func(pool cluster.Pool) bool { return pool.Label == label })
}

// Prepares reports whether clients of a pool can use prepared statements.
func (s *Pools) Prepares(pool cluster.Pool) bool {
	return pool.Mode == cluster.PoolSession || s.Deps.Pools.Prepares
}

// Create adds a pool and begins to make it.
func (s *Pools) Create(ctx context.Context, p account.Principal, id cluster.ID, pool cluster.Pool, faults fault.Faults) (cluster.Pool, error) {
	check := func(c cluster.Cluster) error {
		found := append(s.possible(c), pool.Validate()...)
		switch {
		case len(c.Pools) >= cluster.MaxPools:
			found.Add("label", "A database has at most %d connection pools", cluster.MaxPools)
		case slices.ContainsFunc(c.Pools, func(other cluster.Pool) bool { return strings.EqualFold(other.Label, pool.Label) }):
			found.Add("label", "Must be unique among the database's connection pools, whatever its case; this one is taken")
		}
		return s.refusals(ctx, c, pool, combine(faults, append(found, s.fits(c, append(slices.Clone(c.Pools), pool))...)))
	}
	_, err := s.change(ctx, p, cluster.PostgreSQL, id, check, func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		c.Pools = append(slices.Clone(c.Pools), pool)
		slices.SortFunc(c.Pools, func(a, b cluster.Pool) int { return strings.Compare(a.Label, b.Label) })
		return s.begins(ctx, tx, p, c, operation.PoolCreate)
	})
	return pool, err
}

// ChangePool is what a PUT asks for; nil fields stay as they are.
type ChangePool struct {
	Database *string
	Mode     *cluster.PoolMode
	Size     *int
	// User is "" for all users.
	User *string
}

// Update changes a pool and begins to make it so.
func (s *Pools) Update(ctx context.Context, p account.Principal, id cluster.ID, label string, in ChangePool, faults fault.Faults) (changed cluster.Pool, err error) {
	update := func(c cluster.Cluster) ([]cluster.Pool, error) {
		pools := slices.Clone(c.Pools)
		i := slices.IndexFunc(pools, func(pool cluster.Pool) bool { return pool.Label == label })
		if i < 0 {
			return nil, fault.NewNotFound()
		}
		if in.Database != nil {
			pools[i].Database = *in.Database
		}
		if in.Mode != nil {
			pools[i].Mode = *in.Mode
		}
		if in.Size != nil {
			pools[i].Size = *in.Size
		}
		if in.User != nil {
			pools[i].User = *in.User
		}
		changed = pools[i]
		return pools, nil
	}
	check := func(c cluster.Cluster) error {
		pools, err := update(c)
		if err != nil {
			return err
		}
		found := append(s.possible(c), changed.Validate()...)
		return s.refusals(ctx, c, changed, combine(faults, append(found, s.fits(c, pools)...)))
	}
	_, err = s.change(ctx, p, cluster.PostgreSQL, id, check, func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		if c.Pools, err = update(c); err != nil {
			return c, err
		}
		return s.begins(ctx, tx, p, c, operation.PoolUpdate)
	})
	return changed, err
}

// Delete takes a pool away and begins to end its sessions.
func (s *Pools) Delete(ctx context.Context, p account.Principal, id cluster.ID, label string) error {
	is := func(pool cluster.Pool) bool { return pool.Label == label }
	check := func(c cluster.Cluster) error {
		if !slices.ContainsFunc(c.Pools, is) {
			return fault.NewNotFound()
		}
		return cluster.Require(c.Status, cluster.RequestUpdate)
	}
	_, err := s.change(ctx, p, cluster.PostgreSQL, id, check, func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		c.Pools = slices.DeleteFunc(slices.Clone(c.Pools), is)
		return s.begins(ctx, tx, p, c, operation.PoolDelete)
	})
	return err
}

// begins puts other pools into the row, with a port if they have none, and begins the work.
func (s *Pools) begins(ctx context.Context, tx *store.Tx, p account.Principal, c cluster.Cluster, action operation.Action) (cluster.Cluster, error) {
	c, err := tx.UpdateCluster(ctx, c)
	if err != nil {
		return c, err
	}
	if len(c.Pools) > 0 {
		if c, err = tx.GivePoolPort(ctx, c, store.Ports{First: s.Ports[0], Last: s.Ports[1], Usable: s.PortUsable}); err != nil {
			return c, err
		}
	}
	return s.beginChange(ctx, tx, p, c, cluster.Change, action, operation.Params{})
}

// possible names what keeps a database from having pools, or others than it has.
func (s *Pools) possible(c cluster.Cluster) (faults fault.Faults) {
	able := s.region(c, func(can catalog.Abilities) bool { return can.Pools }, "given connection pools")
	if len(able) == 0 && s.Deps.Pools.Missing != nil {
		able.Add("region", "Databases here can't be given connection pools: PgBouncer isn't installed on this server; ask its operator")
	}
	if c.AutoSuspend > 0 {
		faults = append(faults, fault.NewPrecondition("A database that falls asleep can't have connection pools; set auto_suspend.idle_minutes to 0 first."))
	}
	return append(able, append(faults, faultsIn(cluster.Require(c.Status, cluster.RequestUpdate))...)...)
}

// refusals are all that is wrong. Where nothing else is, the server is asked for the logical database and the user.
func (s *Pools) refusals(ctx context.Context, c cluster.Cluster, pool cluster.Pool, faults fault.Faults) error {
	if len(faults) > 0 {
		return faults
	}
	short, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	err := s.Platform.Inside(short, c.ID, func(ctx context.Context, l platform.Logical) error {
		all, err := l.Databases(ctx)
		if err == nil && !slices.ContainsFunc(all, func(d logical.Database) bool { return d.Name == pool.Database }) {
			faults = append(faults, logical.NoDatabase("database", pool.Database))
		}
		if err != nil || pool.User == "" || pool.User == RootUser {
			return err
		}
		users, err := l.Users(ctx)
		if err == nil && !slices.ContainsFunc(users, func(u logical.User) bool { return u.Name == pool.User }) {
			faults.Add("username", "There is no user %s", fault.Quote([]string{pool.User}))
		}
		return err
	})
	if err == nil && len(faults) > 0 {
		return faults
	}
	if _, isFault := fault.All(err); err == nil || isFault {
		return err
	}
	return s.lookFailed(ctx, err, "look for the logical database "+insight.Name(pool.Database)+" and who logs in", c.ID)
}

// unpooled is how many connections pools leave to those who come without one.
const unpooled = 2

// fits names the fault of pools that are larger together than the server has room for.
func (s *Pools) fits(c cluster.Cluster, pools []cluster.Pool) (faults fault.Faults) {
	plan, known := s.Catalog.Plan(c.Type)
	if most := mostPooled(plan); known && cluster.PoolSizes(pools) > most {
		faults.Add("size", "The sizes of all pools of a database of the type %s may add up to %d, and would to %d", c.Type, most, cluster.PoolSizes(pools))
	}
	return faults
}

// mostPooled is how many connections the pools of a database may have together.
func mostPooled(plan catalog.Plan) int { return parameter.PostgreSQLSlots(plan.MemoryMB) - unpooled }

// poolsFit names the fault of another plan that pools stand in the way of.
func poolsFit(c cluster.Cluster, plan catalog.Plan) (faults fault.Faults) {
	if len(c.Pools) == 0 {
		return nil
	}
	if most, sum := mostPooled(plan), cluster.PoolSizes(c.Pools); sum > most {
		faults.Add("type", "The connection pools have %d connections together, and this type has %d for them: make them smaller first", sum, most)
	}
	return faults
}
