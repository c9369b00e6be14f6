package memplatform_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"steward/internal/cluster"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
)

func TestBackupRestoreAndUndo(t *testing.T) {
	world, driver, want := setup()
	ctx := t.Context()
	if _, err := driver.Backup(ctx, want, cluster.Primary, &bytes.Buffer{}); err == nil {
		t.Error("backed up what isn't there")
	}
	want.Size = 3
	if _, err := driver.Apply(ctx, want); err != nil {
		t.Fatal(err)
	}
	hold := func(data string) { world.Edit(want.ID, func(c *memplatform.Cluster) { c.Data = data }) }
	holds := func(data string) {
		t.Helper()
		if c, _ := world.Cluster(want.ID); c.Data != data {
			t.Errorf("it holds %q, want %q", c.Data, data)
		}
	}
	hold("one")
	var stored bytes.Buffer
	made, err := driver.Backup(ctx, want, cluster.Replica, &stored)
	if err != nil || made.Installation == "" || made.ServerVersion == "" || !strings.Contains(stored.String(), "replica") {
		t.Fatalf("%+v, %v: %s", made, err, &stored)
	}
	hold("two")
	half := stored.Bytes()[:stored.Len()/2]
	if err := driver.Verify(ctx, want, made, bytes.NewReader(half)); err == nil {
		t.Error("half a copy was found whole")
	}
	if _, err := driver.Restore(ctx, want, platform.Source{Copy: made}, bytes.NewReader(half), func(int64) {}); err == nil {
		t.Error("half a copy was restored")
	}
	holds("two")
	if err := driver.Undo(ctx, want); err == nil {
		t.Error("undid what wasn't restored")
	}
	last := int64(0)
	for range 2 { // repeated after a crash, it sets the same aside
		_, err := driver.Restore(ctx, want, platform.Source{Copy: made, Token: "1"}, bytes.NewReader(stored.Bytes()), func(n int64) { last = n })
		if err != nil || last != int64(stored.Len()) {
			t.Fatalf("%d of %d bytes, %v", last, stored.Len(), err)
		}
		holds("one")
	}
	if seen, err := driver.Apply(ctx, want); err != nil || !seen.Settled {
		t.Errorf("%+v, %v", seen, err)
	}
	for range 2 { // as after a crash
		if err := driver.Undo(ctx, want); err != nil {
			t.Fatal(err)
		}
		holds("two")
	}
}

func TestABackupFailsInTheMiddle(t *testing.T) {
	_, driver, want := setup()
	if _, err := driver.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	var stored bytes.Buffer
	driver.Inject(memplatform.Fault{Step: memplatform.StepCopy, After: true, Times: 1})
	if _, err := driver.Backup(t.Context(), want, cluster.Primary, &stored); !errors.Is(err, memplatform.ErrInjected) || stored.Len() == 0 {
		t.Errorf("%d bytes, %v", stored.Len(), err)
	}
	if err := driver.Verify(t.Context(), want, platform.Copy{}, &stored); err == nil {
		t.Error("it was found whole")
	}
}
