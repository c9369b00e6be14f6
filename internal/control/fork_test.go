package control_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
)

func (b *bench) fork(p account.Principal, of cluster.ID, moment *time.Time, change ...func(*cluster.Spec)) (cluster.Cluster, error) {
	spec := b.spec()
	spec.Fork = &cluster.Fork{Source: of, RestoreTime: moment}
	for _, c := range change {
		c(&spec)
	}
	return b.Clusters.Create(b.t.Context(), p, spec, nil)
}

func TestFork(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	b.now = b.now.Add(300 * time.Millisecond)
	first := b.kept(p, c, "first")
	b.now = b.now.Add(time.Hour)
	b.kept(p, c, "second")
	for _, moment := range []*time.Time{nil, new(first.Created.Truncate(time.Second))} {
		made, err := b.fork(p, c.ID, moment)
		if err != nil {
			t.Fatal(err)
		}
		now := b.view(p, made.ID)
		if now.Fork == nil || now.Fork.Source != c.ID || (moment == nil) != (now.Fork.RestoreTime == nil) || now.Status != cluster.Provisioning {
			t.Errorf("%+v", now)
		}
		all, err := b.store.UnfinishedOperations(t.Context(), made.ID)
		if err != nil || len(all) != 1 || all[0].Params.Fork != c.ID {
			t.Errorf("%+v, %v", all, err)
		}
	}
	if now := b.view(p, c.ID); now.Fork != nil || now.OldestBackup == nil || !now.OldestBackup.Equal(first.Created) {
		t.Errorf("%+v", now)
	}
}

func TestForkIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p, other := b.tenant("one"), b.tenant("two")
	c, bare := b.in(p, cluster.Active), b.in(p, cluster.Active)
	b.now = b.now.Add(time.Hour)
	b.kept(p, c, "first")
	b.now = b.now.Add(time.Hour)
	big := b.kept(p, c, "second")
	if err := b.snapshot(p, bare, "bad", ""); err != nil {
		t.Fatal(err)
	}
	b.ends(bare, backup.Failed)
	stranger := b.restricted(p.Account, "stranger")
	stranger.User.AddDatabases = true
	later := b.now.Add(time.Minute)
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE backups SET bytes = 60000000000 WHERE id = $1", big.ID); err != nil {
		t.Fatal(err)
	}
	maria := func(s *cluster.Spec) { s.Engine, s.Series = cluster.MySQL, "10.11" }
	for _, f := range []struct {
		name   string
		p      account.Principal
		of     cluster.ID
		moment *time.Time
		change func(*cluster.Spec)
		want   []string
	}{
		{"another account's", other, c.ID, nil, nil, []string{"fork.source: There is no such database"}},
		{"one that isn't granted", stranger, c.ID, nil, nil, []string{"fork.source: There is no such database"}},
		{"one that isn't there", p, 999999, nil, nil, []string{"fork.source: There is no such database"}},
		{"one without a good backup", p, bare.ID, nil, nil, []string{"fork.source: The database has no backup that can be restored; take one first"}},
		{"one of another engine", p, c.ID, nil, func(s *cluster.Spec) { maria(s); s.Type = "large" }, []string{"engine: Must be postgresql/15, which is the source's"}},
		{"a plan that is too small", p, c.ID, nil, nil, []string{"type: Must have more disk: the backup has 56 GB, and small has 25 GB"}},
		{"a moment between backups", p, c.ID, &later, nil, []string{
			"fork.restore_time: A point in time isn't available here; restore_time can be a backup's created, from 2026-01-31T19:00:00 to 2026-01-31T20:00:00",
		}},
		{"MariaDB at a moment", p, c.ID, &later, maria, []string{
			"engine: Must be postgresql/15, which is the source's",
			"fork.restore_time: A point in time isn't available here; restore_time can be a backup's created, from 2026-01-31T19:00:00 to 2026-01-31T20:00:00",
		}},
	} {
		var change []func(*cluster.Spec)
		if f.change != nil {
			change = append(change, f.change)
		}
		_, err := b.fork(f.p, f.of, f.moment, change...)
		if diff := cmp.Diff(f.want, texts(err)); diff != "" {
			t.Errorf("%s: %v\n%s", f.name, err, diff)
		}
	}
}

// TestAnEncryptedForkReadsTheSourcesPages: it has the key that they are under.
func TestAnEncryptedForkReadsTheSourcesPages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	maria := func(s *cluster.Spec) { s.Engine, s.Series, s.Encrypted = cluster.MySQL, "10.11", true }
	spec := b.spec()
	maria(&spec)
	c, err := b.Clusters.Create(t.Context(), p, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.setStatus(c, cluster.Active)
	b.kept(p, b.view(p, c.ID), "first")
	if _, err := b.fork(p, c.ID, nil, maria, func(s *cluster.Spec) { s.Encrypted = false }); !cmp.Equal(texts(err), []string{"encrypted: Must be true, as it is for the source"}) {
		t.Errorf("in the clear: %v", err)
	}
	made, err := b.fork(p, c.ID, nil, maria)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := b.store.Secret(t.Context(), c.ID, "at_rest_key")
	if err != nil {
		t.Fatal(err)
	}
	if ours, err := b.store.Secret(t.Context(), made.ID, "at_rest_key"); err != nil || string(ours) != string(theirs) {
		t.Errorf("another key, %v", err)
	}
}

// TestAnyMoment where what servers write is archived: from the end of the
// oldest backup to now.
func TestAnyMoment(t *testing.T) {
	t.Parallel()
	for _, engine := range []cluster.Engine{cluster.PostgreSQL, cluster.MySQL} {
		t.Run(string(engine), func(t *testing.T) { anyMoment(t, engine) })
	}
}

func anyMoment(t *testing.T, engine cluster.Engine) {
	b := newBench(t)
	b.Clusters.Continuous = true
	p := b.tenant("one")
	like := func(s *cluster.Spec) {
		if engine == cluster.MySQL {
			s.Engine, s.Series = engine, "10.11"
		}
	}
	spec := b.spec()
	like(&spec)
	c, err := b.Clusters.Create(t.Context(), p, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.setStatus(c, cluster.Active)
	c = b.view(p, c.ID)
	began := b.now.Add(time.Hour)
	b.now = began
	if err := b.snapshot(p, c, "first", ""); err != nil {
		t.Fatal(err)
	}
	b.now = began.Add(10*time.Minute + 300*time.Millisecond)
	b.ends(c, backup.Complete)
	b.now = began.Add(time.Hour)
	const between = "fork.restore_time: Must be a backup's created, or from 2026-01-31T19:10:01 to now, 2026-01-31T20:00:00; after a restore, from the next backup on"
	for after, want := range map[time.Duration]string{
		-time.Hour: between, 0: "", 5 * time.Minute: between, 10 * time.Minute: between, 10*time.Minute + time.Second: "",
		time.Hour: "", time.Hour + time.Second: between,
	} {
		_, err := b.fork(p, c.ID, new(began.Add(after)), like)
		if got := texts(err); len(got) > 1 || (want == "") != (err == nil) || err != nil && got[0] != want {
			t.Errorf("%v after: %v, want %q", after, err, want)
		}
	}
	_, err = b.store.Pool().Exec(t.Context(), `INSERT INTO operations (account_id, cluster_id, label, engine, action, status, username, params, percent, message, created, finished)
		SELECT account_id, id, label, engine, 'database_backup_restore', 'finished', 'x', '{"touched": true}', 100, '', $2::timestamptz, $2 FROM clusters WHERE id = $1`,
		c.ID, began.Add(30*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]string{20 * time.Minute: "", 40 * time.Minute: between} {
		_, err := b.fork(p, c.ID, new(began.Add(after)), like)
		if got := texts(err); (want == "") != (err == nil) || err != nil && got[0] != want {
			t.Errorf("%v after, restored between: %v, want %q", after, err, want)
		}
	}
}
