package operate_test

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/migration"
	"steward/internal/operate"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
	"steward/internal/seal"
)

// anySource is a source by any name.
type anySource struct{}

func (anySource) Dial(context.Context, string, int) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		w := bufio.NewWriter(theirs)
		_, _ = w.WriteString("15.3\n")
		_ = w.Flush()
		_ = theirs.Close()
	}()
	return ours, nil
}

func (anySource) Barrier(string, int) string { return "" }

// following asks for a migration that follows a source, and has it be carried out until the test ends.
func (b *bench) following(c cluster.Cluster) (id migration.ID) {
	b.t.Helper()
	m, err := b.control.Migrations.Create(b.t.Context(), b.admin, c.Engine, c.ID, migration.Migration{
		Source: migration.Source{Host: "db.example.org", Port: 5432, Username: "mover", TLS: migration.Verify},
		Mode:   migration.Replicate, Databases: []migration.Database{{From: "shop", To: "shop"}},
	}, seal.NewSecret("hunter22"), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	o, ended := b.last, make(chan struct{})
	ctx, cancel := context.WithCancel(b.t.Context())
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = b.operator.Run(ctx, o)
		}
	}()
	b.t.Cleanup(func() { cancel(); <-ended })
	return m.ID
}

func (b *bench) migration(c cluster.Cluster, id migration.ID) migration.Migration {
	b.t.Helper()
	m, err := b.control.Migrations.View(b.t.Context(), b.admin, c.Engine, c.ID, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// TestASourceThatCannotBeFollowedIsTold: while it can't be, why and until when that is waited for; it goes on when the source does, and ends with that reason once it was
// so for too long. Meanwhile it can be cancelled.
func TestASourceThatCannotBeFollowedIsTold(t *testing.T) {
	t.Parallel()
	away := memplatform.Fault{Step: memplatform.StepFollow, Err: &platform.CustomerError{Reason: "The source is away.", Passing: true}}
	limits := operate.Limits{Quick: time.Nanosecond, Copies: time.Nanosecond, Seen: time.Nanosecond, Report: 10 * time.Millisecond}
	told := func(b *bench, c cluster.Cluster, id migration.ID) {
		b.t.Helper()
		await.True(b.t, "it is told", func() bool {
			m := b.migration(c, id)
			return m.Status == migration.Running && strings.HasPrefix(m.Progress.Waiting, "The source is away. It goes on by itself once it can, and is given up where it can't until 2")
		})
	}
	start := func(t *testing.T, following time.Duration) (b *bench, c cluster.Cluster) {
		limits := limits
		limits.Following = following
		b = newBench(t, limits)
		return b, b.active()
	}
	t.Run("it goes on", func(t *testing.T) {
		t.Parallel()
		b, c := start(t, time.Hour)
		b.driver.Inject(away)
		id := b.following(c)
		told(b, c, id)
		b.driver.Clear()
		await.True(t, "it follows, and nothing is waited for", func() bool {
			m := b.migration(c, id)
			return m.Progress.Lag != nil && m.Progress.Waiting == ""
		})
	})
	t.Run("it is cancelled", func(t *testing.T) {
		t.Parallel()
		b, c := start(t, time.Hour)
		b.driver.Inject(away)
		id := b.following(c)
		told(b, c, id)
		if err := b.control.Migrations.Delete(t.Context(), b.admin, c.Engine, c.ID, id); err != nil {
			t.Fatal(err)
		}
		await.True(t, "it has ended", func() bool { return b.migration(c, id).Status == migration.Canceled })
	})
	t.Run("it is given up", func(t *testing.T) {
		t.Parallel()
		b, c := start(t, 2*time.Second)
		b.driver.Inject(away)
		id := b.following(c)
		told(b, c, id)
		await.True(t, "it has ended", func() bool { return b.migration(c, id).Status.Ended() })
		if m := b.migration(c, id); m.Status != migration.Failed || m.Problem != "Its source couldn't be followed for 2 seconds. The source is away." {
			t.Errorf("it ended as %s: %s", m.Status, m.Problem)
		}
	})
}
