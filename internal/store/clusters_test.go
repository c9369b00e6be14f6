package store_test

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/parameter"
	"steward/internal/pgtest"
	"steward/internal/platform"
	"steward/internal/store"
)

// sameInstant compares times as instants, at the database's precision.
var sameInstant = cmpopts.EquateApproxTime(time.Microsecond)

func TestCreateCluster(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	week := 2
	want := spec("one")
	want.Engine, want.Series, want.Commit, want.Replication, want.Size = cluster.MySQL, "10.11", "", cluster.SemiSynch, 3
	want.AllowList = cluster.AllowList{"10.0.0.0/8", "::1", "127.0.0.1"}
	want.Updates = cluster.Window{Frequency: cluster.Monthly, Duration: 1, HourOfDay: 23, DayOfWeek: 7, WeekOfMonth: &week}
	want.Encrypted, want.SSLConnection = true, false
	made, err := create(t.Context(), s, u.Account, want)
	if err != nil {
		t.Fatal(err)
	}
	if made.Status != cluster.Provisioning || made.Port != ports.First || made.Generation != 1 || made.ID == 0 {
		t.Errorf("%+v", made)
	}
	viewer := store.Viewer{Account: u.Account}
	for name, read := range map[string]func() (cluster.Cluster, error){
		"of its engine": func() (cluster.Cluster, error) { return s.Cluster(t.Context(), viewer, cluster.MySQL, made.ID) },
		"of any engine": func() (cluster.Cluster, error) { return s.Cluster(t.Context(), viewer, "", made.ID) },
		"for work":      func() (cluster.Cluster, error) { return s.ClusterForWork(t.Context(), made.ID) },
	} {
		got, err := read()
		if diff := cmp.Diff(made, got, sameInstant); err != nil || diff != "" {
			t.Errorf("%s: %v -made +read\n%s", name, err, diff)
		}
	}
	if diff := cmp.Diff(want, made.Spec); diff != "" {
		t.Errorf("-asked +made\n%s", diff)
	}
	if _, err := s.Cluster(t.Context(), viewer, cluster.PostgreSQL, made.ID); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("found as another engine's: %v", err)
	}
	if _, err := s.ClusterForWork(t.Context(), made.ID+1); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("found what isn't there: %v", err)
	}
}

func TestEmptyAllowListStaysEmpty(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	closed := spec("closed")
	closed.AllowList = nil
	c, err := create(t.Context(), s, u.Account, closed)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = s.ClusterForWork(t.Context(), c.ID); err != nil || len(c.AllowList) != 0 {
		t.Errorf("%v, %v", c.AllowList, err)
	}
}

func TestLabelIsUniquePerAccount(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	a, b := newAccount(t, s, "a"), newAccount(t, s, "b")
	first := newCluster(t, s, a.Account, "same")
	newCluster(t, s, b.Account, "same")
	other := newCluster(t, s, a.Account, "other")
	taken := fault.NewInvalid("label", "Label must be unique among your databases")
	again := spec("same")
	again.Engine = cluster.MySQL
	if _, err := create(t.Context(), s, a.Account, again); !errors.Is(err, taken) {
		t.Errorf("a label that is taken: %v", err)
	}
	other.Label = "same"
	rename := func() error {
		return s.InTx(t.Context(), func(tx *store.Tx) error {
			_, err := tx.UpdateCluster(t.Context(), other)
			return err
		})
	}
	if err := rename(); !errors.Is(err, taken) {
		t.Errorf("renamed to a label that is taken: %v", err)
	}
	inTx(t, s, func(tx *store.Tx) error { return tx.MarkDeleted(t.Context(), first) })
	if err := rename(); err != nil {
		t.Errorf("a deleted database holds its label: %v", err)
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	n := ports.Last - ports.First + 1
	made := make([]cluster.Cluster, n+3)
	var creates sync.WaitGroup
	for i := range made { // more at once than there are ports
		creates.Go(func() {
			var err error
			made[i], err = create(context.Background(), s, u.Account, spec(fmt.Sprintf("port-%d", i)))
			if err != nil {
				made[i].Port = 0
				if !fault.IsKind(err, fault.Precondition) || !strings.Contains(err.Error(), "gateway.ports") {
					t.Errorf("no port left: %v", err)
				}
			}
		})
	}
	creates.Wait()
	sort.Slice(made, func(i, j int) bool { return made[i].Port < made[j].Port })
	for i, c := range made {
		if want := max(0, ports.First+i-3); i >= 3 && c.Port != want || i < 3 && c.Port != 0 {
			t.Errorf("the %dth port is %d", i, c.Port)
		}
	}
	freed, earlier := made[20], made[10]
	inTx(t, s, func(tx *store.Tx) error { return tx.RemoveCluster(t.Context(), earlier.ID) })
	inTx(t, s, func(tx *store.Tx) error { return tx.MarkDeleted(t.Context(), freed) })
	if _, err := create(t.Context(), s, u.Account, spec("more")); err == nil {
		t.Error("the port of a database that isn't removed yet was given out")
	}
	inTx(t, s, func(tx *store.Tx) error { return tx.RemoveCluster(t.Context(), freed.ID) })
	if c, err := create(t.Context(), s, u.Account, spec("more")); err != nil || c.Port != freed.Port {
		t.Errorf("port %d, %v; want the lowest free one, %d", c.Port, err, freed.Port)
	}
}

// TestClustersShareNothing: of one database that was read nothing is found in another that is read after it, nor does that change what was read before.
func TestClustersShareNothing(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	full, bare := newCluster(t, s, u.Account, "full"), newCluster(t, s, u.Account, "bare")
	full.AllowList, full.AllowNotes = cluster.AllowList{"10.0.0.0/8"}, cluster.AllowNotes{"10.0.0.0/8": "the office"}
	full.Config = parameter.Config{"work_mem": int64(4096)}
	full.Pools = []cluster.Pool{{Label: "shop", Database: "defaultdb", Mode: "transaction", Size: 5}}
	inTx(t, s, func(tx *store.Tx) (err error) {
		full, err = tx.UpdateCluster(t.Context(), full)
		return err
	})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 50 {
				gotFull, errFull := s.ClusterForWork(t.Context(), full.ID)
				gotBare, errBare := s.ClusterForWork(t.Context(), bare.ID)
				if diff := cmp.Diff([]cluster.Cluster{full, bare}, []cluster.Cluster{gotFull, gotBare}, sameInstant); errFull != nil || errBare != nil || diff != "" {
					t.Errorf("%v, %v -written +read\n%s", errFull, errBare, diff)
					return
				}
			}
		})
	}
	readers.Wait()
}

func TestUpdateCluster(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := pgtest.Store(t, pgtest.WithNow(func() time.Time { return now }))
	u := newAccount(t, s, "a")
	c := newCluster(t, s, u.Account, "before")
	now = now.Add(time.Minute)
	c.Label, c.Type, c.AllowList, c.Status = "after", "g6-standard-1", cluster.AllowList{"::1"}, cluster.Active
	c.Updates = cluster.Window{Frequency: cluster.Weekly, Duration: 1, HourOfDay: 4, DayOfWeek: 5}
	var written cluster.Cluster
	inTx(t, s, func(tx *store.Tx) (err error) {
		written, err = tx.UpdateCluster(t.Context(), c)
		return err
	})
	got, err := s.ClusterForWork(t.Context(), c.ID)
	if diff := cmp.Diff(written, got, sameInstant); err != nil || diff != "" {
		t.Errorf("%v -written +read\n%s", err, diff)
	}
	if got.Generation != 2 || !got.Updated.Equal(now) || got.Label != "after" {
		t.Errorf("%+v", got)
	}
}

// TestOneWriterWins: of all who read the same row only one gets its change in.
func TestOneWriterWins(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	c := newCluster(t, s, u.Account, "contested")
	writes := map[string]func(tx *store.Tx) error{
		"update":     func(tx *store.Tx) error { _, err := tx.UpdateCluster(context.Background(), c); return err },
		"transition": func(tx *store.Tx) error { _, err := tx.Transition(context.Background(), c, cluster.Ready); return err },
		"delete":     func(tx *store.Tx) error { return tx.MarkDeleted(context.Background(), c) },
	}
	for name, write := range writes {
		c = newCluster(t, s, u.Account, name)
		var wins sync.Map
		var writers sync.WaitGroup
		for i := range 6 {
			writers.Go(func() {
				err := s.InTx(context.Background(), write)
				if err == nil {
					wins.Store(i, true)
				} else if !errors.Is(err, store.ErrStale) && !errors.Is(err, store.ErrNoTransition) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		writers.Wait()
		n := 0
		wins.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%s: %d writers won", name, n)
		}
	}
}

// TestTransition tries every trigger in every status against the table.
func TestTransition(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	c := newCluster(t, s, u.Account, "moves")
	triggers := map[cluster.Trigger]bool{}
	for _, row := range cluster.Table {
		triggers[row.On] = true
	}
	for _, from := range cluster.Statuses {
		for on := range triggers {
			if _, err := s.Pool().Exec(t.Context(), "UPDATE clusters SET status = $1 WHERE id = $2", from, c.ID); err != nil {
				t.Fatal(err)
			}
			before, err := s.ClusterForWork(t.Context(), c.ID)
			if err != nil {
				t.Fatal(err)
			}
			var after cluster.Cluster
			err = s.InTx(t.Context(), func(tx *store.Tx) (err error) {
				after, err = tx.Transition(t.Context(), before, on)
				return err
			})
			want, legal := cluster.Next(from, on)
			if !legal {
				want = from
			}
			now, errRead := s.ClusterForWork(t.Context(), c.ID)
			if errRead != nil || legal != (err == nil) || !legal && !errors.Is(err, store.ErrNoTransition) || now.Status != want || after.Status != want {
				t.Errorf("%s on %s: %v, %s, want %s", from, on, err, now.Status, want)
			}
			if legal && now.Generation != before.Generation+1 {
				t.Errorf("%s on %s: generation %d after %d", from, on, now.Generation, before.Generation)
			}
		}
	}
}

func TestRecordObserved(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	c := newCluster(t, s, u.Account, "seen")
	version := func() (v string) {
		if err := s.Pool().QueryRow(t.Context(), "SELECT xmin::text FROM clusters WHERE id = $1", c.ID).Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	record := func(o platform.Observed) {
		t.Helper()
		if err := s.RecordObserved(t.Context(), c.ID, o); err != nil {
			t.Fatal(err)
		}
	}
	used, more := int64(1<<40), int64(1<<40+1)
	full := platform.Observed{
		Hosts: cluster.Hosts{Primary: "127.0.0.1", Secondary: "127.0.0.2"}, Members: map[string]string{"127.0.77.1": "primary"},
		Installation: "postgresql-15.18-debian", ServerVersion: "15.18", UsedBytes: &used, ReadOnly: true,
	}
	record(full)
	got, err := s.ClusterForWork(t.Context(), c.ID)
	want := c
	want.Hosts, want.Members, want.Installation, want.ServerVersion = full.Hosts, full.Members, full.Installation, full.ServerVersion
	want.UsedBytes, want.ReadOnly = &used, true
	if diff := cmp.Diff(want, got, sameInstant); err != nil || diff != "" {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
	before := version()
	record(full)
	if version() != before {
		t.Error("what hadn't changed was written")
	}
	for name, change := range map[string]func(o *platform.Observed){
		"used bytes": func(o *platform.Observed) { o.UsedBytes = &more },
		"read only":  func(o *platform.Observed) { o.ReadOnly = false },
		"members":    func(o *platform.Observed) { o.Members = nil },
		"version":    func(o *platform.Observed) { o.ServerVersion = "15.19" },
		"no usage":   func(o *platform.Observed) { o.UsedBytes = nil },
	} {
		record(full)
		before := version()
		changed := full
		change(&changed)
		record(changed)
		if version() == before {
			t.Errorf("a change of %s wasn't written", name)
		}
	}
}

// TestRecordFailovers: of many that see the same failover one tells of it, and
// nobody of one that is older than what is known.
func TestRecordFailovers(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	c := newCluster(t, s, u.Account, "fails over")
	if c.Failovers != 0 {
		t.Errorf("a new cluster has had %d", c.Failovers)
	}
	record := func(c cluster.Cluster, seen int) (told bool) {
		err := s.InTx(t.Context(), func(tx *store.Tx) (err error) {
			told, err = tx.RecordFailovers(t.Context(), c, seen)
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return told
	}
	var told atomic.Int64
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if record(c, 2) {
				told.Add(1)
			}
		})
	}
	wait.Wait()
	now, err := s.ClusterForWork(t.Context(), c.ID)
	if err != nil || told.Load() != 1 || now.Failovers != 2 || now.Generation != c.Generation {
		t.Errorf("%d told, row %+v, %v", told.Load(), now, err)
	}
	if record(c, 1) || !record(now, 3) {
		t.Error("it isn't compared with what is known")
	}
	inTx(t, s, func(tx *store.Tx) error { return tx.MarkDeleted(t.Context(), now) })
	if now.Failovers = 3; record(now, 4) {
		t.Error("a failover of a deleted cluster is told")
	}
}

func TestDeletedCluster(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	ctx := t.Context()
	u := newAccount(t, s, "a")
	c := newCluster(t, s, u.Account, "deleted")
	if err := s.SetGrant(ctx, u, c.ID, account.ReadWrite); err != nil {
		t.Fatal(err)
	}
	inTx(t, s, func(tx *store.Tx) error { return tx.RemoveCluster(ctx, c.ID) })
	if _, err := s.ClusterForWork(ctx, c.ID); err != nil {
		t.Fatalf("removed without having been deleted: %v", err)
	}
	inTx(t, s, func(tx *store.Tx) error { return tx.MarkDeleted(ctx, c) })
	v := store.Viewer{Account: u.Account}
	if _, err := s.Cluster(ctx, v, "", c.ID); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("visible after the delete: %v", err)
	}
	if list, total, err := s.Clusters(ctx, v, "", store.ListQuery{}); err != nil || len(list) != 0 || total != 0 {
		t.Errorf("listed after the delete: %v, %d, %v", list, total, err)
	}
	hidden, err := s.ClusterForWork(ctx, c.ID)
	if err != nil || hidden.Deleted == nil {
		t.Fatalf("%+v, %v", hidden, err)
	}
	if all, err := s.ClustersForWork(ctx); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	err = s.InTx(ctx, func(tx *store.Tx) error { _, err := tx.UpdateCluster(ctx, hidden); return err })
	if !errors.Is(err, store.ErrStale) {
		t.Errorf("update of a deleted one: %v", err)
	}
	err = s.InTx(ctx, func(tx *store.Tx) error { _, err := tx.Transition(ctx, hidden, cluster.Ready); return err })
	if !errors.Is(err, store.ErrNoTransition) {
		t.Errorf("status change of a deleted one: %v", err)
	}
	if _, err := s.Secret(ctx, c.ID, platform.RootPassword); err != nil {
		t.Errorf("the secrets went before the resources: %v", err)
	}
	inTx(t, s, func(tx *store.Tx) error { return tx.RemoveCluster(ctx, c.ID) })
	if _, err := s.ClusterForWork(ctx, c.ID); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("there after the removal: %v", err)
	}
	if _, err := s.Secret(ctx, c.ID, platform.RootPassword); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("its secrets are still there: %v", err)
	}
}

// TestTenancy: another account, and a restricted user without a grant, see
// neither database nor events, in no way of asking.
func TestTenancy(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	a, b := newAccount(t, s, "a"), newAccount(t, s, "b")
	c := newCluster(t, s, a.Account, "mine")
	other := newCluster(t, s, a.Account, "other")
	op := newOperation(t, s, operation.Operation{Account: a.Account, Cluster: c.ID, Action: operation.Create, Status: operation.Scheduled})
	r, err := s.CreateUser(t.Context(), account.User{Account: a.Account, Username: "r", Restricted: true})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := s.CreateUser(t.Context(), account.User{Account: b.Account, Username: "r", Restricted: true})
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, p account.User, sees bool, listed int) {
		t.Helper()
		v := store.ViewerOf(account.Principal{Account: p.Account, User: p})
		_, err := s.Cluster(t.Context(), v, "", c.ID)
		_, errOp := s.Operation(t.Context(), v, op.ID)
		errRead := s.MarkRead(t.Context(), v, op.ID)
		list, total, errList := s.Clusters(t.Context(), v, "", store.ListQuery{})
		page, past, errPast := s.Clusters(t.Context(), v, "", store.ListQuery{Page: store.Page{Number: 7}})
		ops, totalOps, errOps := s.Operations(t.Context(), v, store.ListQuery{})
		if err := errors.Join(errList, errOps, errPast); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for what, err := range map[string]error{"view": err, "event": errOp, "read": errRead} {
			if (err == nil) != sees || !sees && !fault.IsKind(err, fault.NotFound) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		if len(list) != listed || total != listed || len(page) != 0 || past != listed || len(ops) != totalOps || (totalOps == 1) != sees {
			t.Errorf("%s: listed %d of %d (past the end %d of %d), events %d", name, len(list), total, len(page), past, totalOps)
		}
	}
	check("owner", a, true, 2)
	check("another account", b, false, 0)
	check("restricted without a grant", r, false, 0)
	check("another account's restricted user", foreign, false, 0)
	if err := s.SetGrant(t.Context(), r, other.ID, account.ReadWrite); err != nil {
		t.Fatal(err)
	}
	check("restricted with a grant on another", r, false, 1)
	if err := s.SetGrant(t.Context(), r, c.ID, account.ReadOnly); err != nil {
		t.Fatal(err)
	}
	check("restricted with a grant", r, true, 2)
}

// TestClusterReadsItsOwnBackups: what others have in backups isn't gone through for a database that has none.
func TestClusterReadsItsOwnBackups(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	bare, other := newCluster(t, s, u.Account, "bare"), newCluster(t, s, u.Account, "other")
	for n := range 28 {
		newCluster(t, s, u.Account, fmt.Sprint("more", n))
	}
	tx, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO backups (account_id, cluster_id, type, label, target, state, created)
			SELECT c.account_id, c.id, 'auto', 'n' || g, 'primary', 'complete', now() FROM clusters c, generate_series(1, 100) g WHERE c.id <> %d`, bare.ID),
		"ANALYZE backups",
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for id, most := range map[cluster.ID]int{bare.ID: 0, other.ID: 100} {
		rows, _ := tx.Query(t.Context(), fmt.Sprintf("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) %s FROM clusters WHERE id = %d", store.SelectCluster, id))
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		looked, scans := 0, 0
		for _, line := range plan {
			var n, removed int
			if at := strings.Index(line, "on backups b"); at >= 0 {
				_, _ = fmt.Sscanf(line[at:], "on backups b (actual rows=%d", &n)
				scans++
			}
			_, _ = fmt.Sscanf(strings.TrimSpace(line), "Rows Removed by Filter: %d", &removed)
			looked += n + removed
		}
		if scans != 1 || looked != most {
			t.Errorf("%d backups are looked at in %d scans, want %d in one:\n%s", looked, scans, most, strings.Join(plan, "\n"))
		}
	}
}
