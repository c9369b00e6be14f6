package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"steward/internal/account"
	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/seal"
	"steward/internal/store"
)

// LostArchive is what is asked of the bucket that databases come back from.
type LostArchive interface {
	Archive
	List(ctx context.Context) ([]archive.Stored, error)
	Manifest(ctx context.Context, of cluster.ID, id backup.ID) (archive.Manifest, error)
	Verify(ctx context.Context, of cluster.ID, id backup.ID) (archive.Manifest, error)
}

// Options are what a Recoverer is made of.
type Options struct {
	// Store is the new server's, Archive what the lost one left, Sealer the lost
	// one's key.
	Store   *store.Store
	Archive LostArchive
	Sealer  store.Sealer
	Catalog *catalog.Catalog
	// Runs is nil when the new server can run data that the installation of the
	// name wrote.
	Runs  func(engine cluster.Engine, series, installation string) error
	Ports [2]int
	// Quotas bound accounts that have none of their own.
	Quotas account.Quotas
}

// Recoverer makes databases out of what a bucket has of them.
type Recoverer struct{ Options }

// New makes a Recoverer.
func New(o Options) *Recoverer { return &Recoverer{o} }

// Found is a database that a bucket has backups of.
type Found struct {
	Cluster cluster.ID
	// Backups are the complete ones, newest first.
	Backups []backup.ID
	// Newest is the manifest of the first.
	Newest archive.Manifest
	Record Record
	// Problem is why it can't be recovered, nil when it can.
	Problem error
}

// List tells of all databases in the bucket, by id.
func (r *Recoverer) List(ctx context.Context) ([]Found, error) {
	stored, err := r.Archive.List(ctx)
	if err != nil {
		return nil, err
	}
	byID := map[cluster.ID]*Found{}
	for _, s := range stored {
		if s.Complete {
			f := byID[s.Cluster]
			if f == nil {
				f = &Found{Cluster: s.Cluster}
				byID[s.Cluster] = f
			}
			f.Backups = append(f.Backups, s.Backup)
		}
	}
	list := make([]Found, 0, len(byID))
	for _, f := range byID {
		slices.SortFunc(f.Backups, func(a, b backup.ID) int { return cmp.Compare(b, a) })
		r.examine(ctx, f)
		list = append(list, *f)
	}
	slices.SortFunc(list, func(a, b Found) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return list, ctx.Err()
}

// examine reads what there is of a database, and says why that isn't enough.
func (r *Recoverer) examine(ctx context.Context, f *Found) {
	var err error
	if f.Newest, f.Problem = r.Archive.Manifest(ctx, f.Cluster, f.Backups[0]); f.Problem != nil {
		return
	}
	f.Record, err = Read(ctx, r.Archive, r.Sealer, f.Cluster)
	switch {
	case errors.Is(err, archive.ErrNotFound):
		f.Problem = errors.New("the bucket has no recovery record of it: it was backed up by an older steward")
	case errors.Is(err, seal.ErrUnreadable):
		f.Problem = errors.New("the seal key doesn't open its recovery record: it is another server's key, one from before or after a rotation, or the record is damaged")
	default:
		f.Problem = err
	}
}

// Outcome is what came of asking for a database.
type Outcome struct {
	cluster.Cluster
	// Begun reports whether its data is going to be restored now, from Backup.
	Begun  bool
	Backup backup.ID
}

// Recover records a database, its backups and the operation that restores one
// of them, in one transaction; 0 means the newest backup. A database that is
// there already is left as it is, unless its data never came back.
func (r *Recoverer) Recover(ctx context.Context, f Found, from backup.ID) (Outcome, error) {
	o, err := r.recover(ctx, f, from)
	if err != nil {
		return o, fmt.Errorf("database %d (%s): %w", f.Cluster, cmp.Or(f.Record.Label, f.Newest.Database), err)
	}
	return o, nil
}

func (r *Recoverer) recover(ctx context.Context, f Found, from backup.ID) (Outcome, error) {
	if f.Problem != nil {
		return Outcome{}, f.Problem
	}
	from = cmp.Or(from, f.Backups[0])
	if !slices.Contains(f.Backups, from) {
		return Outcome{}, fmt.Errorf("the bucket has no complete backup %d of it", from)
	}
	if here, err := r.here(ctx, f.Record); err != nil || here != nil && !waiting(*here) {
		return outcome(here), err
	}
	kept, err := r.check(ctx, f, from)
	if err != nil {
		return Outcome{}, err
	}
	o := Outcome{Begun: true, Backup: from}
	err = r.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		o.Cluster, err = r.begin(ctx, tx, f.Record, kept, from)
		return err
	})
	return o, err
}

func outcome(here *cluster.Cluster) Outcome {
	if here == nil {
		return Outcome{}
	}
	return Outcome{Cluster: *here}
}

// here is the database if the store has it; nil when it doesn't. Whose it is the
// certificate authority says, which no two databases share.
func (r *Recoverer) here(ctx context.Context, record Record) (*cluster.Cluster, error) {
	c, err := r.Store.ClusterForWork(ctx, record.Cluster)
	if fault.IsKind(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for it here: %w", err)
	}
	ca, err := r.Store.Secret(ctx, c.ID, platform.CACert)
	if err != nil {
		return nil, fmt.Errorf("look for it here: %w", err)
	}
	switch {
	case string(ca) != string(record.Secrets[platform.CACert]):
		return nil, fmt.Errorf("this server has another database of the id %d, %s: recover on an empty data folder", c.ID, c.Label)
	case c.Deleted != nil:
		return nil, errors.New("it was deleted on this server; `steward restore --undelete` shows it again")
	}
	return &c, nil
}

// waiting reports whether a database was recorded whose data never came.
func waiting(c cluster.Cluster) bool { return c.Status == cluster.Failed && c.Hosts.Primary == "" }

// check returns an error unless the backup is whole and can be run here, and reads the
// manifests of all.
func (r *Recoverer) check(ctx context.Context, f Found, from backup.ID) ([]archive.Manifest, error) {
	if _, ok := r.Catalog.Plan(f.Record.Type); !ok {
		return nil, fmt.Errorf("its type %s is not in this server's catalog (catalog.file)", f.Record.Type)
	}
	if region, ok := r.Catalog.Region(f.Record.Region); !ok {
		return nil, fmt.Errorf("its region %s is not in this server's catalog (catalog.file)", f.Record.Region)
	} else if !region.Platform.OnHost() {
		return nil, fmt.Errorf("its region %s isn't on this host by this server's catalog (catalog.file)", f.Record.Region)
	}
	var kept []archive.Manifest
	for _, id := range f.Backups {
		m, err := r.Archive.Manifest(ctx, f.Cluster, id)
		if err != nil && (id == from || !errors.Is(err, archive.ErrDamaged)) {
			return nil, err
		}
		if err == nil {
			kept = append(kept, m)
		}
		if id != from {
			continue
		}
		if err := r.Runs(m.Engine, m.Series, m.Copy.Installation); err != nil {
			return nil, err
		}
	}
	if _, err := r.Archive.Verify(ctx, f.Cluster, from); errors.Is(err, archive.ErrDamaged) {
		return nil, fmt.Errorf("backup %d is damaged; choose another one with --backup, of %v", from, f.Backups)
	} else if err != nil {
		return nil, err
	}
	return kept, nil
}

// begin records the database, unless it is, and has it restored. Its status
// goes through failed, which is what it is until its data is back.
func (r *Recoverer) begin(ctx context.Context, tx *store.Tx, record Record, kept []archive.Manifest, from backup.ID) (cluster.Cluster, error) {
	c, err := tx.ClusterForWork(ctx, record.Cluster)
	if fault.IsKind(err, fault.NotFound) {
		c, err = r.record(ctx, tx, record, kept)
	}
	if err != nil {
		return c, err
	}
	if c, err = tx.Transition(ctx, c, cluster.Restore); err != nil {
		return c, err
	}
	_, err = tx.CreateOperation(ctx, operation.Operation{
		Account: c.Account, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Action: operation.Restore,
		Status: operation.Scheduled, Params: operation.Params{Backup: from, BackupLabel: labelOf(kept, from), Failed: true, Recovered: true},
	})
	return c, err
}

// labelOf is a kept backup's label.
func labelOf(kept []archive.Manifest, id backup.ID) string {
	for _, m := range kept {
		if m.Backup == id {
			return m.Label
		}
	}
	return ""
}

func (r *Recoverer) record(ctx context.Context, tx *store.Tx, record Record, kept []archive.Manifest) (cluster.Cluster, error) {
	if _, err := tx.EnsureAdmin(ctx); err != nil {
		return cluster.Cluster{}, fmt.Errorf("make the first user: %w", err)
	}
	owner, err := tx.EnsureAccount(ctx, record.Account)
	if err != nil {
		return cluster.Cluster{}, fmt.Errorf("make the account %s: %w", record.Account, err)
	}
	if err := r.within(ctx, tx, owner, record); err != nil {
		return cluster.Cluster{}, err
	}
	c, err := tx.AdoptCluster(ctx, record.cluster(owner), record.Secrets, store.Ports{First: r.Ports[0], Last: r.Ports[1]})
	if err != nil {
		return c, taken(err, record.Label)
	}
	for _, u := range record.Users {
		if err := admit(ctx, tx, owner, c.ID, u); err != nil {
			return c, fmt.Errorf("make the user %s: %w", u.Username, err)
		}
	}
	if err := shelve(ctx, tx, c, kept); err != nil {
		return c, err
	}
	return tx.Transition(ctx, c, cluster.GiveUp)
}

// within demands that the account may have one more such database.
func (r *Recoverer) within(ctx context.Context, tx *store.Tx, owner account.ID, record Record) error {
	memory, disk := r.Catalog.Size(record.Type)
	exceeded, err := tx.Exceeded(ctx, owner, account.Amounts{Databases: 1, Nodes: record.Size, MemoryMB: record.Size * memory, DiskMB: record.Size * disk}, r.Quotas, r.Catalog.Size)
	if fault.IsKind(err, fault.Forbidden) {
		return fmt.Errorf("the account %s isn't active here: `steward account view %s` says why", record.Account, record.Account)
	}
	if err != nil {
		return fmt.Errorf("quotas of account %s: %w", record.Account, err)
	}
	if err := exceeded.Err(); err != nil {
		return fmt.Errorf("account %s: %w (`steward account update %s` changes its quotas)", record.Account, err, record.Account)
	}
	return nil
}

// taken says of a label that is another database's what can be done.
func taken(err error, label string) error {
	if found, ok := fault.All(err); ok && len(found) == 1 && found[0].Field == "label" {
		return fmt.Errorf("this server has another database %s: rename or delete that one first", label)
	}
	return fmt.Errorf("record it: %w", err)
}

// admit makes a user again who had a grant, unless there is one of the name.
// Tokens don't come back: nobody has more than their hashes.
func admit(ctx context.Context, tx *store.Tx, owner account.ID, id cluster.ID, u User) error {
	user, err := tx.User(ctx, owner, u.Username)
	if fault.IsKind(err, fault.NotFound) {
		user, err = tx.CreateUser(ctx, account.User{
			Account: owner, Username: u.Username, Email: u.Email, Restricted: u.Restricted, AddDatabases: u.AddDatabases,
		})
	}
	if err != nil {
		return err
	}
	return tx.SetGrant(ctx, user, id, u.Permission)
}

// shelve lists the backups again. They come newest first: of two with one label
// the older was being deleted.
func shelve(ctx context.Context, tx *store.Tx, c cluster.Cluster, kept []archive.Manifest) error {
	known := false
	for _, m := range kept {
		err := tx.AdoptBackup(ctx, backup.Backup{
			ID: m.Backup, Account: c.Account, Cluster: c.ID, Type: m.Type, Label: m.Label, Created: m.Created,
			Bytes: m.Bytes, StoredBytes: m.StoredBytes, Installation: m.Copy.Installation,
		})
		if err == nil && m.Type == backup.Auto && !known {
			known, err = true, tx.SetLastAuto(ctx, c.ID, m.Created)
		}
		if err != nil {
			return fmt.Errorf("list backup %d: %w", m.Backup, err)
		}
	}
	return nil
}
