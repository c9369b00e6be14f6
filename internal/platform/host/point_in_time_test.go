package host_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine/enginetest"
	"steward/internal/platform"
)

// TestRecoverWAL forks a moment to which the archive doesn't reach: up to its end, although another file is archived while the server recovers; but
// where a file is missing whose followers are there, nothing is made.
func TestRecoverWAL(t *testing.T) {
	t.Parallel()
	s := newSite(t, distribution(t))
	s.o.Continuous = true
	d := s.started(t)
	want := s.wanted(t, 1)
	settle(t, d, want)
	conn, err := newLoad(t, s, want.Cluster).connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	do := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if err := conn.exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	var backup bytes.Buffer
	copied, err := d.Backup(t.Context(), want, cluster.Primary, &backup)
	if err != nil {
		t.Fatal(err)
	}
	ballast := strings.Repeat("x", 2000)
	do("CREATE TABLE ballast (filling text)", // for two segments
		"INSERT INTO ballast SELECT '"+ballast+"' FROM generate_series(1, 20000)")
	archived := &enginetest.Sink{}
	var last, needed string // what the backup began or ended with is archived, too, and no recovery needs that
	await.True(t, "a file with what came after the backup is archived, and one more", func() bool {
		if err := d.Upload(t.Context(), want, archived); err != nil {
			t.Fatal(err)
		}
		names := slices.Sorted(maps.Keys(archived.Files))
		first := slices.IndexFunc(names, func(name string) bool { return bytes.Contains(archived.Files[name], []byte(ballast)) })
		if first < 0 || first == len(names)-1 {
			return false
		}
		needed, last = names[first], names[len(names)-1]
		return true
	})

	for _, c := range []struct {
		name, missing string
		// comesLate has the missing file be archived once it was asked for in vain.
		comesLate bool
		want      error
	}{
		{"a file that comes too late is no gap", last, true, nil},
		{"a file without which later ones are there is one", needed, false, platform.ErrGap},
	} {
		t.Run(c.name, func(t *testing.T) {
			there := maps.Clone(archived.Files)
			delete(there, c.missing)
			recovery := &platform.Recovery{
				Until: time.Now(),
				Fetch: func(_ context.Context, id, name string, out io.Writer) (bool, error) {
					file := id + " " + name
					if file == c.missing {
						if c.comesLate {
							there[file] = archived.Files[file]
						}
						return false, nil
					}
					content, ok := there[file]
					_, err := out.Write(content)
					return ok, err
				},
				Archived: func(_ context.Context, id string) (list []string, err error) {
					for file := range there {
						if name, is := strings.CutPrefix(file, id+" "); is {
							list = append(list, name)
						}
					}
					return list, nil
				},
			}
			fork := s.wanted(t, 2)
			from := platform.Source{Copy: copied, AdminPassword: s.secrets.Text(want.ID, platform.AdminPassword), Recovery: recovery}
			reached, err := d.Fork(t.Context(), fork, from, bytes.NewReader(backup.Bytes()), nil)
			if !errors.Is(err, c.want) {
				t.Errorf("it ends with %v, want %v", err, c.want)
			}
			if c.want == nil && !reached.Before(recovery.Until) {
				t.Errorf("it is said to be as of %v, which the archive doesn't reach", reached)
			}
			if c.comesLate && there[c.missing] == nil {
				t.Error("nobody has asked for the file that comes late")
			}
		})
	}
}
