package operate_test

import (
	"strings"
	"testing"

	"steward/internal/archive/archivetest"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/parameter"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
)

// newUpgradeBench has a newer series installed, too.
func newUpgradeBench(t *testing.T, limits operate.Limits) *bench {
	t.Helper()
	b := newBench(t, limits)
	b.versions = memplatform.DefaultVersions()
	b.versions["postgresql/17"] = []string{"17.2"}
	b.restart()
	return b
}

// upgrade asks for a version.
func (b *bench) upgrade(c cluster.Cluster, version string) {
	b.t.Helper()
	if err := b.update(c, control.UpdateCluster{Version: &version}); err != nil {
		b.t.Fatal(err)
	}
}

// mustBeOf demands the version of row and servers, and that customers get in.
func (b *bench) mustBeOf(c cluster.Cluster, series string) {
	b.t.Helper()
	now := b.view(c.ID)
	real, _ := b.world.Cluster(c.ID)
	if now.Series != series || cluster.SeriesOf(now.Installation) != series || cluster.SeriesOf(real.Installation) != series {
		b.t.Errorf("it is of series %s, %s, %s, want %s", now.Series, now.Installation, real.Installation, series)
	}
	b.mustServe(c.ID)
}

// mustTellUpdate demands an event of the update beside that of the upgrade, which ends with it: clients that send another version wait for that one.
func (b *bench) mustTellUpdate(want operation.Status) {
	b.t.Helper()
	if o := b.event(b.event(b.last).Params.Companion); o.Action != operation.Update || o.Status != want || o.Finished == nil {
		b.t.Errorf("the update ends as %+v, want %s", o, want)
	}
}

// TestUpgrade: with a fault before and after each step, and each time with a new process.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	b := newUpgradeBench(t, quick)
	for _, after := range []bool{false, true} {
		for _, step := range []memplatform.Step{"", memplatform.StepBackup, memplatform.StepMove, memplatform.StepSwap, memplatform.StepRoute, memplatform.StepFinish} {
			c := b.active()
			b.hold(c, "one")
			if step != "" {
				b.driver.Inject(memplatform.Fault{Step: step, Times: 1, After: after})
			}
			b.upgrade(c, "17")
			if now := b.view(c.ID); now.Status != cluster.Updating || now.Series != "15" {
				t.Errorf("%s: asked for, it is %s of %s", step, now.Status, now.Series)
			}
			if o := b.runToEnd(); o.Status != operation.Finished || o.Action != operation.Upgrade {
				t.Errorf("%s: %+v", step, o)
			}
			b.mustTellUpdate(operation.Finished)
			b.mustBeOf(c, "17")
			b.mustHold(c, "one")
			if real, _ := b.world.Cluster(c.ID); !real.Polished {
				t.Errorf("%s: nobody made statistics", step)
			}
			if kept := b.backups(c); len(kept) != 1 || kept[0].State != backup.Complete || cluster.SeriesOf(kept[0].Installation) != "15" || kept[0].Label != "before17" {
				t.Errorf("%s: backups %+v", step, kept)
			}
		}
	}
}

// TestUndoAnUpgrade: with it the version comes back; a restore of a backup from before brings it back, too.
func TestUndoAnUpgrade(t *testing.T) {
	t.Parallel()
	b := newUpgradeBench(t, quick)
	c := b.active()
	b.hold(c, "one")
	b.upgrade(c, "17")
	b.runToEnd()
	b.hold(c, "two")
	if err := b.control.Backups.UndoRestore(t.Context(), b.admin, c.Engine, c.ID); err != nil {
		t.Fatal(err)
	}
	if o := b.runToEnd(); o.Status != operation.Finished {
		t.Errorf("%+v", o)
	}
	b.mustBeOf(c, "15")
	b.mustHold(c, "one")
	if err := b.control.Backups.UndoRestore(t.Context(), b.admin, c.Engine, c.ID); err == nil {
		t.Error("undone twice")
	}
	b.upgrade(c, "17")
	b.runToEnd()
	b.mustBeOf(c, "17")
	kept := b.backups(c)
	b.restore(c, kept[len(kept)-1])
	if o := b.runToEnd(); o.Status != operation.Finished {
		t.Errorf("%+v", o)
	}
	b.mustBeOf(c, "15")
	b.upgrade(c, "17")
	b.runToEnd()
	forked := b.fork(c, &kept[len(kept)-1].Created)
	if o := b.runToEnd(); o.Status != operation.Finished {
		t.Errorf("%+v", o)
	}
	b.mustBeOf(forked, "15")
}

// TestAnUpgradeIsGivenUp: the database is as it was, and there is nothing to undo.
func TestAnUpgradeIsGivenUp(t *testing.T) {
	t.Parallel()
	refused := &platform.NoUpgradeError{Reasons: []string{"The extension is missing."}}
	for name, inject := range map[string]func(b *bench){
		"nothing was done":   func(b *bench) { b.driver.Inject(memplatform.Fault{Step: memplatform.StepMove, Err: refused}) },
		"it fails":           func(b *bench) { b.driver.Inject(memplatform.Fault{Step: memplatform.StepSwap}) },
		"there is no backup": func(b *bench) { b.archive.Inject(archivetest.Fault{Call: "Put"}) },
		"its end has to wait": func(b *bench) {
			b.driver.Inject(memplatform.Fault{Step: memplatform.StepMove, Err: refused})
			b.driver.Inject(memplatform.Fault{Step: memplatform.StepAbandon, Times: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newUpgradeBench(t, hopeless)
			c := b.active()
			b.hold(c, "one")
			inject(b)
			b.upgrade(c, "17")
			o := b.runToEnd()
			if o.Status != operation.FailedStatus || !strings.HasSuffix(o.Message, " The data is as it was.") || strings.Contains(name, "nothing") && !strings.HasPrefix(o.Message, "The extension is missing.") {
				t.Errorf("%+v", o)
			}
			b.mustTellUpdate(operation.FailedStatus)
			b.driver.Clear()
			b.mustBeOf(c, "15")
			b.mustHold(c, "one")
			if err := b.control.Backups.UndoRestore(t.Context(), b.admin, c.Engine, c.ID); err == nil {
				t.Error("there is something to undo")
			}
			if kept := b.backups(c); len(kept) != 1 || kept[0].State == backup.Running {
				t.Errorf("backups %+v", kept)
			}
		})
	}
}

// TestUpgradeTakesSettingsAway that the new version doesn't have, and says so.
func TestUpgradeTakesSettingsAway(t *testing.T) {
	t.Parallel()
	b := newUpgradeBench(t, quick)
	c := b.active()
	if _, err := b.store.Pool().Exec(t.Context(), `UPDATE clusters SET engine_config = '{"pg.gone": 1, "work_mem": 8}' WHERE id = $1`, c.ID); err != nil {
		t.Fatal(err)
	}
	b.upgrade(c, "17")
	if o := b.runToEnd(); o.Status != operation.Finished || !strings.Contains(o.Message, "pg.gone") || strings.Contains(o.Message, "work_mem") {
		t.Errorf("%+v", o)
	}
	if now := b.view(c.ID); now.Config.Text() != (parameter.Config{"work_mem": int64(8)}).Text() {
		t.Errorf("its settings are %v", now.Config)
	}
}

// TestCheckUpgrade: what is found is kept, and the database goes on.
func TestCheckUpgrade(t *testing.T) {
	t.Parallel()
	b := newUpgradeBench(t, quick)
	c := b.active()
	check := func() error {
		return b.control.Clusters.CheckUpgrade(t.Context(), b.admin, c.Engine, c.ID, "17", nil)
	}
	if err := check(); err == nil || !strings.Contains(err.Error(), "no backup") {
		t.Errorf("without a backup: %v", err)
	}
	for data, reasons := range map[string]int{"one": 0, "an obstacle": 1} {
		b.hold(c, data)
		kept := b.keep(c, "s")
		for _, step := range []memplatform.Step{"", memplatform.StepTry} {
			if err := check(); err != nil {
				t.Fatal(err)
			}
			if err := check(); err == nil || !strings.Contains(err.Error(), "goes on") {
				t.Errorf("twice at a time: %v", err)
			}
			if now := b.view(c.ID); now.Status != cluster.Active {
				t.Errorf("meanwhile it is %s", now.Status)
			}
			if step != "" {
				b.driver.Inject(memplatform.Fault{Step: step, Times: 1})
			}
			b.runToEnd()
			found, err := b.control.Clusters.LastUpgradeCheck(t.Context(), b.admin, c.Engine, c.ID)
			if err != nil || found.Status != operation.Finished || found.Params.Trial == nil || len(found.Params.Trial.Reasons) != reasons ||
				reasons == 0 && found.Params.Trial.PauseMS != memplatform.TrialPause.Milliseconds() {
				t.Errorf("%s: %+v, %v", data, found, err)
			}
		}
		if err := b.control.Backups.Delete(t.Context(), b.admin, c.Engine, c.ID, kept.ID); err != nil {
			t.Fatal(err)
		}
		b.runToEnd()
	}
	b.mustBeOf(c, "15")
}
