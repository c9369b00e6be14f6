package converge

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/operation"
	"steward/internal/outage"
	"steward/internal/platform"
	"steward/internal/store"
)

// Platform is what is asked of where databases run: a platform.Driver.
type Platform interface {
	platform.Applier
	platform.ContinuousArchiver
	platform.Verifier
	platform.BackupKeeper
	platform.Reconciler
	Changes() <-chan cluster.ID
}

// Options are what a Keeper is made of.
type Options struct {
	Store   *store.Store
	Driver  Platform
	Catalog *catalog.Catalog
	Logger  *slog.Logger
	// Archive keeps backups; nil leaves them alone.
	Archive Archive
	Backups BackupOptions
	// Maintenance is about what is done in maintenance windows.
	Maintenance MaintenanceOptions
	// Quotas bound accounts that have none of their own.
	Quotas account.Quotas
	// Issues opens and closes issues, and tells of maintenance windows.
	Issues outage.IssueTracker
	// Recovery keeps what brings databases back on another server.
	Recovery Recovery
	// Enqueue adds a wake-up for an operation to the transaction.
	Enqueue func(ctx context.Context, tx *store.Tx, id operation.ID) error
	// Now is the clock of what is done at a time of the day; time.Now when nil.
	Now func() time.Time
	// Every is the time between two looks at a database that gives no sign; 20 s
	// unless set. Ends of servers are told by the driver at once; the look is
	// for those that hang, and for the disk.
	Every time.Duration
	// Grace is how long a database may be down before its status says so, so
	// that a restart after a crash doesn't make it flap; 3 s unless set.
	Grace time.Duration
	// Accounts is the time between two looks whether databases are as the statuses of
	// their accounts want them; a second unless set.
	Accounts time.Duration
	// Orphans is the time between two searches for what no database owns;
	// 10 min unless set.
	Orphans time.Duration
}

// listTime bounds the question which databases there are: while it is asked
// nobody listens to changes.
const listTime = 10 * time.Second

// usageEvery is how old usage may be that is shown.
const usageEvery = 10 * time.Minute

// atOnce is how many databases are looked at at the same time.
const atOnce = 4

// Keeper looks after all databases.
type Keeper struct {
	Options
	stop    context.CancelFunc
	running sync.WaitGroup
	listing listing
	// unreadable are backups that couldn't be read, with when to try again.
	unreadable map[backup.ID]time.Time
}

// New makes a Keeper; Start starts it.
func New(o Options) *Keeper {
	for _, d := range []struct {
		of    *time.Duration
		value time.Duration
	}{{&o.Every, 20 * time.Second}, {&o.Grace, 3 * time.Second}, {&o.Orphans, 10 * time.Minute}, {&o.Accounts, time.Second}, {&o.Backups.Every, 10 * time.Second}, {&o.Maintenance.Every, 10 * time.Second}} {
		if *d.of == 0 {
			*d.of = d.value
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Maintenance.AtOnce == 0 {
		o.Maintenance.AtOnce = 2
	}
	o.Backups.Verification = o.Backups.Verification.withDefaults()
	if o.Backups.Keep == 0 {
		o.Backups.Keep = backup.Autos
	}
	return &Keeper{Options: o, unreadable: map[backup.ID]time.Time{}}
}

// Start adopts every database, clears orphans away, and goes on looking until Stop.
func (k *Keeper) Start(ctx context.Context) {
	ctx, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	r := &round{
		every: k.Every, slots: atOnce, changes: k.Driver.Changes(), list: k.list, look: k.look,
		ended: make(chan result), targets: map[cluster.ID]*target{},
	}
	k.running.Go(func() { r.run(ctx) })
	k.running.Go(func() { k.orphans(ctx) })
	k.running.Go(func() { k.repeat(ctx, k.Accounts, "settle accounts", k.seeToAccounts) })
	k.running.Go(func() { k.repeat(ctx, usageEvery, "count usage", k.Store.CountUsage) })
	k.running.Go(func() { k.repeat(ctx, k.Maintenance.Every, "maintain", k.seeToMaintenance) })
	if k.Archive == nil {
		return
	}
	k.running.Go(func() { k.repeat(ctx, k.Backups.Every, "take and drop", k.seeToBackups) })
	k.running.Go(func() { k.repeat(ctx, searchPace*k.Orphans, "search for orphans", k.searchArchive) })
	k.running.Go(func() { k.repeat(ctx, k.Backups.Every, "upload", k.upload) })
	k.running.Go(func() { k.repeat(ctx, searchPace*k.Orphans, "prune", k.prune) })
	if k.Backups.Verify {
		k.running.Go(func() { k.repeat(ctx, k.Backups.Every, "verify", k.verifyBackups(newVerifier(k))) })
	}
}

// Stop ends the upkeep; databases run on.
func (k *Keeper) Stop() {
	if k.stop != nil {
		k.stop()
		k.running.Wait()
	}
}

// listing is what databases there were a moment ago.
type listing struct {
	mu  sync.Mutex
	all []cluster.Cluster
	at  time.Time
}

// clusters lists all databases, once for the loops that ask at the same moment. Whoever changes one has to find in
// its transaction whether it has changed since.
func (k *Keeper) clusters(ctx context.Context) ([]cluster.Cluster, error) {
	const share = 10 // of the time between two looks
	l := &k.listing
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() && time.Since(l.at) < k.Backups.Every/share {
		return l.all, nil
	}
	began := time.Now()
	all, err := k.Store.ClustersForWork(ctx)
	if err != nil {
		return nil, fmt.Errorf("list databases: %w", err)
	}
	l.all, l.at = all, began
	return all, nil
}

// schedule has an operation on a database carried out once tx commits.
func (k *Keeper) schedule(ctx context.Context, tx *store.Tx, c cluster.Cluster, o operation.Operation) error {
	o.Account, o.Cluster, o.Label, o.Engine, o.Status = c.Account, c.ID, c.Label, c.Engine, operation.Scheduled
	o, err := tx.CreateOperation(ctx, o)
	if err != nil {
		return err
	}
	return k.Enqueue(ctx, tx, o.ID)
}

// list names every database there is.
func (k *Keeper) list(ctx context.Context) ([]cluster.ID, error) {
	limited, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	all, err := k.Store.ClustersForWork(limited)
	if err != nil {
		if ctx.Err() == nil {
			k.Logger.WarnContext(ctx, "list databases to look after", "error", err)
		}
		return nil, err
	}
	ids := make([]cluster.ID, len(all))
	for i, c := range all {
		ids[i] = c.ID
	}
	return ids, nil
}
