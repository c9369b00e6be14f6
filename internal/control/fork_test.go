package control_test

import (
	"slices"
	"sync"
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
	later, before := b.now.Add(time.Minute), b.now.Add(-time.Hour-time.Second)
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
		{"a moment to come", p, c.ID, &later, nil, []string{
			"fork.restore_time: Must be from 2026-01-31T19:00:00, when the oldest backup began, to now, 2026-01-31T20:00:00; the newest backup before it is taken",
		}},
		{"a moment before all backups", p, c.ID, &before, nil, []string{
			"fork.restore_time: Must be from 2026-01-31T19:00:00, when the oldest backup began, to now, 2026-01-31T20:00:00; the newest backup before it is taken",
		}},
		{"MariaDB at a moment", p, c.ID, &later, maria, []string{
			"engine: Must be postgresql/15, which is the source's",
			"fork.restore_time: Must be from 2026-01-31T19:00:00, when the oldest backup began, to now, 2026-01-31T20:00:00; the newest backup before it is taken",
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

// TestForkTakesTheNewestBackupBefore where nothing is archived between
// backups, and says which that is.
func TestForkTakesTheNewestBackupBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	b.now = b.now.Add(300 * time.Millisecond)
	first := b.kept(p, c, "first")
	b.now = b.now.Add(time.Hour)
	second := b.kept(p, c, "second")
	b.now = b.now.Add(time.Hour)
	for after, want := range map[time.Duration]backup.Backup{
		0: first, time.Second: first, time.Hour - time.Second: first, time.Hour: second, 2 * time.Hour: second,
	} {
		made, err := b.fork(p, c.ID, new(first.Created.Add(after).Truncate(time.Second)))
		if err != nil {
			t.Fatalf("%v after the first: %v", after, err)
		}
		of := want.Created.Truncate(time.Second)
		if now := b.view(p, made.ID); made.Fork.RestoreTime == nil || !made.Fork.RestoreTime.Equal(of) || !now.Fork.RestoreTime.Equal(of) {
			t.Errorf("%v after the first: answered %v, kept %v, want %v", after, made.Fork.RestoreTime, now.Fork.RestoreTime, of)
		}
	}
}

// TestForkIsLikeItsSource in all that isn't asked for, and has a label of its own.
func TestForkIsLikeItsSource(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p, other := b.tenant("one"), b.tenant("two")
	spec := b.spec()
	spec.Label, spec.Engine, spec.Series, spec.Type, spec.Size, spec.Encrypted = "a-label-of-thirty-two-characters", cluster.MySQL, "10.11", "large", 3, true
	spec.AskedConfig = map[string]any{"mysql": map[string]any{"wait_timeout": 100.0, "sql_mode": "ANSI"}}
	source, err := b.Clusters.Create(t.Context(), p, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.setStatus(source, cluster.Active)
	b.kept(p, b.view(p, source.ID), "first")
	fork := func(p account.Principal, change func(*cluster.Spec)) (cluster.Cluster, error) {
		spec := cluster.Spec{Engine: cluster.MySQL, SSLConnection: true, Fork: &cluster.Fork{Source: source.ID, SameEncryption: true}}
		if change != nil {
			change(&spec)
		}
		return b.Clusters.Create(t.Context(), p, spec, nil)
	}
	for _, label := range []string{"a-label-of-thirty-two-chara-fork", "a-label-of-thirty-two-cha-fork-2", "a-label-of-thirty-two-cha-fork-3"} {
		made, err := fork(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		if made.Config.Text() != `{"mysql.sql_mode":"ANSI","mysql.wait_timeout":100}` {
			t.Errorf("%s", made.Config.Text())
		}
		if made.Label != label || made.EngineID() != "mysql/10.11" || made.Region != "local" || made.Type != "large" || made.Size != 3 || !made.Encrypted {
			t.Errorf("want %s: %+v", label, made.Spec)
		}
	}
	made, err := fork(p, func(s *cluster.Spec) {
		s.Label, s.Size, s.Series = "mine", 1, "10"
		s.AskedConfig = map[string]any{"mysql": map[string]any{"wait_timeout": nil, "sort_buffer_size": 65536.0}}
	})
	if err != nil || made.Config.Text() != `{"mysql.sort_buffer_size":65536,"mysql.sql_mode":"ANSI"}` || made.Label != "mine" || made.Size != 1 || made.Series != "10.11" || made.Type != "large" {
		t.Errorf("%+v, %v", made.Spec, err)
	}
	for name, c := range map[string]struct {
		p      account.Principal
		change func(*cluster.Spec)
		want   []string
	}{
		"another account's": {other, nil, []string{"fork.source: There is no such database"}},
		"another account's, and what is there is checked": {
			other, func(s *cluster.Spec) { s.Region = "moon" }, []string{"region: region is not valid", "fork.source: There is no such database"},
		},
		"in the clear": {p, func(s *cluster.Spec) { s.Fork.SameEncryption = false }, []string{"encrypted: Must be true, as it is for the source"}},
		"another engine": {p, func(s *cluster.Spec) { s.Engine, s.Encrypted, s.Fork.SameEncryption = cluster.PostgreSQL, false, false }, []string{
			"engine: Must be mysql/10.11, which is the source's", "encrypted: Must be true, as it is for the source",
		}},
	} {
		if _, err := fork(c.p, c.change); !cmp.Equal(c.want, texts(err)) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestForksBegunTogetherHaveLabelsOfTheirOwn: what one took meanwhile isn't
// another's.
func TestForksBegunTogetherHaveLabelsOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	b.kept(p, c, "first")
	b.woken = nil
	const n = 6
	labels := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			made, err := b.Clusters.Create(t.Context(), p, cluster.Spec{Engine: c.Engine, Fork: &cluster.Fork{Source: c.ID}}, nil)
			if err != nil {
				t.Error(err)
			}
			labels[i] = made.Label
		})
	}
	all.Wait()
	slices.Sort(labels)
	if len(slices.Compact(labels)) != n || labels[0] != c.Label+"-fork" {
		t.Errorf("%v", labels)
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

// TestForkToAnyPointInTime where what servers write is archived: from the end of the
// oldest backup to now.
func TestForkToAnyPointInTime(t *testing.T) {
	t.Parallel()
	for _, engine := range []cluster.Engine{cluster.PostgreSQL, cluster.MySQL} {
		t.Run(string(engine), func(t *testing.T) { forkToAnyPointInTime(t, engine) })
	}
}

func forkToAnyPointInTime(t *testing.T, engine cluster.Engine) {
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
