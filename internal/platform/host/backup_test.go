package host_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/platform"
	"steward/internal/platform/platformtest"
)

// TestArchive backs up and restores databases of one and three nodes: what was
// there at the backup is there again, and a copy that is no good does no harm.
func TestArchive(t *testing.T) { testArchive(t, false) }

// TestArchiveThorough has each database go through all of it.
func TestArchiveThorough(t *testing.T) { testArchive(t, true) }

func testArchive(t *testing.T, thorough bool) {
	t.Helper()
	t.Parallel()
	found, _ := installations()
	for _, b := range benches(found) {
		// Of each family one: a replica's backup, and one that is encrypted. The engines' suites
		// restore each engine's of both kinds.
		sizes := []int{1, 3}
		switch {
		case enginetest.Thorough():
		case b.Engine == cluster.PostgreSQL:
			sizes = []int{3}
		case b.Encrypted && b.Older != "":
			sizes = []int{1}
		default:
			continue
		}
		if b.Encrypted {
			sizes = []int{1}
		}
		for _, size := range sizes {
			name := fmt.Sprintf("%s-%s-%d", b.Engine, b.Series, size)
			if b.Encrypted {
				name += "-encrypted"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				a := newArchived(t, ofSeries(found, b), b, size)
				for _, c := range []struct {
					name string
					do   func(*archived)
					here bool
				}{
					{"a restore brings the rows back", (*archived).restores, true},
					{"undone, the later rows are back", (*archived).undoes, thorough || b.Engine == cluster.PostgreSQL},
					{"a damaged copy touches nothing", (*archived).refusesDamage, thorough || b.Engine == cluster.MySQL},
					{"a copy is proven to restore", (*archived).verifies, true},
					{"a database without data is restored", (*archived).restoresNothing, thorough || b.Engine == cluster.MySQL},
				} {
					if !c.here {
						continue
					}
					t.Run(c.name, func(t *testing.T) {
						a.t = t
						c.do(a)
					})
				}
			})
		}
	}
}

type archived struct {
	*threeNodes
	copy platform.Copy
	// kept is that copy. It's in a file, since the race detector goes through all that is moved about in this program's memory.
	kept *os.File
	size int64
	// there are the rows by now.
	there string
}

func newArchived(t *testing.T, found []engine.Installation, b platformtest.Bench, size int) *archived {
	t.Helper()
	m := modes(b)[0]
	if size == 1 {
		m = mode{replication: cluster.ReplicationNone}
		if b.Engine == cluster.PostgreSQL {
			m.commit = cluster.CommitLocal
		}
	}
	b.Older = ""
	return &archived{threeNodes: newCluster(t, found, b, m, size)}
}

// do runs a customer's statements.
func (a *archived) do(statements ...string) {
	a.t.Helper()
	conn, err := a.load.connect(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	defer conn.close()
	for _, s := range statements {
		if err := conn.exec(a.t.Context(), s); err != nil {
			a.t.Fatalf("%s: %v", s, err)
		}
	}
}

func (a *archived) rows() string {
	a.t.Helper()
	var list []int64
	await.True(a.t, "the rows", func() bool {
		conn, err := a.load.connect(a.t.Context())
		if err != nil {
			return false
		}
		defer conn.close()
		list, err = conn.numbers(a.t.Context(), "SELECT k FROM written ORDER BY k")
		return err == nil
	})
	return strings.Trim(fmt.Sprint(list), "[]")
}

func (a *archived) demand(want string) {
	a.t.Helper()
	a.there = want
	if got := a.rows(); got != want {
		a.t.Errorf("rows %s, want %s", got, want)
	}
}

// backUp keeps a copy.
func (a *archived) backUp(from cluster.Role) {
	a.t.Helper()
	file, err := os.CreateTemp(filepath.Dir(a.s.o.DataDir), "copy-")
	if err != nil {
		a.t.Fatal(err)
	}
	a.s.t.Cleanup(func() { file.Close() })
	if a.copy, err = a.driver.Backup(a.t.Context(), a.want, from, file); err != nil {
		a.t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		a.t.Fatal(err)
	}
	a.kept, a.size = file, info.Size()
}

// copied reads the copy.
func (a *archived) copied() *io.SectionReader { return io.NewSectionReader(a.kept, 0, a.size) }

// restore does what operate does, while nobody applies.
func (a *archived) restore(copied io.Reader) error {
	a.stop()
	a.keeping.Wait()
	_, err := a.driver.Restore(a.t.Context(), a.want, platform.Source{Copy: a.copy}, copied, nil)
	a.driver.Close()
	a.open()
	return err
}

func (a *archived) restores() {
	a.do("INSERT INTO written VALUES (1, 'a'), (2, 'b')")
	a.backUp(cluster.Replica)
	a.do("INSERT INTO written VALUES (3, 'c')", "DELETE FROM written WHERE k = 1")
	var told int64
	a.stop()
	a.keeping.Wait()
	for range 2 { // as after a crash that came before it was noted that the first is done
		if _, err := a.driver.Restore(a.t.Context(), a.want, platform.Source{Copy: a.copy, Token: "1"}, a.copied(), func(n int64) { told = n }); err != nil {
			a.t.Fatal(err)
		}
	}
	a.driver.Close()
	a.open()
	if told != a.size {
		a.t.Errorf("told of %d bytes of %d", told, a.size)
	}
	a.healthy()
	a.demand("1 2")
	a.do("INSERT INTO written VALUES (4, 'd')", "DELETE FROM written WHERE k = 4")
}

func (a *archived) undoes() {
	a.stop()
	a.keeping.Wait()
	if err := a.driver.Undo(a.t.Context(), a.want); err != nil {
		a.t.Fatal(err)
	}
	primary := func() int {
		seen, err := a.driver.Observe(a.t.Context(), a.want.ID)
		if err != nil {
			a.t.Fatal(err)
		}
		return seen.Nodes[0].Pid
	}
	undone := primary()
	if err := a.driver.Undo(a.t.Context(), a.want); err != nil { // as after a crash
		a.t.Errorf("the same undo again: %v", err)
	}
	if now := primary(); now != undone || now == 0 {
		a.t.Errorf("the same undo again has the server %d, before %d", now, undone)
	}
	a.driver.Close()
	a.open()
	a.healthy()
	a.demand("2 3")
}

func (a *archived) refusesDamage() {
	before := a.pids()
	middle := make([]byte, 1)
	if _, err := a.kept.ReadAt(middle, a.size/2); err != nil {
		a.t.Fatal(err)
	}
	middle[0] ^= 1
	for _, damaged := range []func() io.Reader{
		func() io.Reader {
			return io.MultiReader(io.NewSectionReader(a.kept, 0, a.size/2), bytes.NewReader(middle), io.NewSectionReader(a.kept, a.size/2+1, a.size))
		},
		func() io.Reader { return io.NewSectionReader(a.kept, 0, a.size*2/3) },
	} {
		if err := a.driver.Verify(a.t.Context(), a.want, a.copy, damaged()); err == nil {
			a.t.Error("a damaged copy is verified")
		}
		if err := a.restore(damaged()); err == nil {
			a.t.Error("a damaged copy is restored")
		}
	}
	a.healthy()
	a.demand(a.there)
	if after := a.pids(); after != before {
		a.t.Errorf("servers were restarted: %s, then %s", before, after)
	}
}

func (a *archived) pids() string {
	a.t.Helper()
	var list []int
	for _, n := range a.healthy().Nodes {
		list = append(list, n.Pid)
	}
	return fmt.Sprint(list)
}

func (a *archived) verifies() {
	if err := a.driver.Verify(a.t.Context(), a.want, a.copy, a.copied()); err != nil {
		a.t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(a.s.o.DataDir, "scratch", "*"))
	if err != nil || len(left) > 0 {
		a.t.Errorf("left: %v %v", left, err)
	}
	a.demand(a.there)
}

// restoresNothing: a cluster of which every copy is lost comes back from its backup.
func (a *archived) restoresNothing() {
	a.stop()
	a.keeping.Wait()
	for ordinal := range max(1, a.want.Size) {
		if err := os.RemoveAll(a.data(ordinal)); err != nil {
			a.t.Log(err) // the server may make files meanwhile
		}
	}
	// The loss may have begun a failover, which the first try then stumbles over;
	// an operation tries again, too.
	await.True(a.t, "restored", func() bool {
		_, err := a.driver.Restore(context.WithoutCancel(a.t.Context()), a.want, platform.Source{Copy: a.copy}, a.copied(), nil)
		if err != nil {
			a.t.Log(err)
		}
		return err == nil
	})
	a.driver.Close()
	a.open()
	a.healthy()
	a.demand("1 2")
}
