package host_test

import (
	"bytes"
	"context"
	"fmt"
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
func TestArchive(t *testing.T) {
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
				}{
					{"a restore brings the rows back", (*archived).restores},
					{"undone, the later rows are back", (*archived).undoes},
					{"a damaged copy touches nothing", (*archived).refusesDamage},
					{"a copy is proven to restore", (*archived).verifies},
					{"a database without data is restored", (*archived).restoresNothing},
				} {
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
	copy  platform.Copy
	bytes []byte
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
	if got := a.rows(); got != want {
		a.t.Errorf("rows %s, want %s", got, want)
	}
}

// restore does what operate does, while nobody applies.
func (a *archived) restore(copied []byte) error {
	a.stop()
	a.keeping.Wait()
	_, err := a.driver.Restore(a.t.Context(), a.want, platform.Source{Copy: a.copy}, bytes.NewReader(copied), nil)
	a.driver.Close()
	a.open()
	return err
}

func (a *archived) restores() {
	a.do("INSERT INTO written VALUES (1, 'a'), (2, 'b')")
	var copied bytes.Buffer
	var err error
	if a.copy, err = a.driver.Backup(a.t.Context(), a.want, cluster.Replica, &copied); err != nil {
		a.t.Fatal(err)
	}
	a.bytes = copied.Bytes()
	a.do("INSERT INTO written VALUES (3, 'c')", "DELETE FROM written WHERE k = 1")
	var told int64
	a.stop()
	a.keeping.Wait()
	if _, err := a.driver.Restore(a.t.Context(), a.want, platform.Source{Copy: a.copy}, bytes.NewReader(a.bytes), func(n int64) { told = n }); err != nil {
		a.t.Fatal(err)
	}
	a.driver.Close()
	a.open()
	if told != int64(len(a.bytes)) {
		a.t.Errorf("told of %d bytes of %d", told, len(a.bytes))
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
	if err := a.driver.Undo(a.t.Context(), a.want); err == nil {
		a.t.Error("undone twice")
	}
	a.driver.Close()
	a.open()
	a.healthy()
	a.demand("2 3")
}

func (a *archived) refusesDamage() {
	before := a.pids()
	for _, damage := range []func([]byte) []byte{
		func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		func(b []byte) []byte { return b[:len(b)*2/3] },
	} {
		damaged := damage(bytes.Clone(a.bytes))
		if err := a.driver.Verify(a.t.Context(), a.want, a.copy, bytes.NewReader(damaged)); err == nil {
			a.t.Error("a damaged copy is verified")
		}
		if err := a.restore(damaged); err == nil {
			a.t.Error("a damaged copy is restored")
		}
	}
	a.healthy()
	a.demand("2 3")
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
	if err := a.driver.Verify(a.t.Context(), a.want, a.copy, bytes.NewReader(a.bytes)); err != nil {
		a.t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(a.s.o.DataDir, "scratch", "*"))
	if err != nil || len(left) > 0 {
		a.t.Errorf("left: %v %v", left, err)
	}
	a.demand("2 3")
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
		_, err := a.driver.Restore(context.WithoutCancel(a.t.Context()), a.want, platform.Source{Copy: a.copy}, bytes.NewReader(a.bytes), nil)
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
