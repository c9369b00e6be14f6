package host_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/platform"
)

// hostileIndex never lets go of the account that verifies backups.
var hostileIndex = []string{
	`CREATE FUNCTION trap(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN
			WHILE session_user = 'steward' LOOP
				BEGIN
					PERFORM pg_sleep(60);
				EXCEPTION WHEN OTHERS OR query_canceled THEN NULL;
				END;
			END LOOP;
			RETURN $1;
		END $$`,
	"CREATE TABLE trapped (v int)", "INSERT INTO trapped VALUES (1)", "CREATE INDEX hanging ON trapped (trap(v))",
}

// TestVerificationOfAHostileBackup: one whose index hangs on purpose is neither
// proven nor called broken after its time, and is gone at once when its cluster is removed.
func TestVerificationOfAHostileBackup(t *testing.T) {
	t.Parallel()
	found, _ := installations()
	for _, b := range benches(found) {
		if b.Engine != cluster.PostgreSQL {
			continue
		}
		a := newArchived(t, ofSeries(found, b), b, 1)
		a.do(hostileIndex...)
		a.backUp(cluster.Primary)
		a.checkTime(time.Second)
		if err := a.driver.Verify(t.Context(), a.want, a.copy, a.copied()); !errors.Is(err, platform.ErrUnverified) {
			t.Errorf("after its time: %v", err)
		}
		a.mustLeaveNothing()
		a.checkTime(time.Hour)
		ended := make(chan error, 1)
		go func() { ended <- a.driver.Verify(context.WithoutCancel(t.Context()), a.want, a.copy, a.copied()) }()
		await.True(t, "its server", func() bool {
			sockets, err := filepath.Glob(filepath.Join(a.s.o.RunDir, "*-3", ".s.PGSQL.*"))
			return err == nil && len(sockets) > 0
		})
		if err := a.driver.Verify(t.Context(), a.want, a.copy, bytes.NewReader(nil)); !errors.Is(err, platform.ErrUnverified) {
			t.Errorf("a second one meanwhile: %v", err)
		}
		a.stop()
		a.keeping.Wait()
		if err := a.driver.Remove(t.Context(), a.want.Cluster); err != nil {
			t.Errorf("remove: %v", err)
		}
		a.mustLeaveNothing()
		if err := <-ended; !errors.Is(err, platform.ErrUnverified) {
			t.Errorf("removed meanwhile: %v", err)
		}
	}
}

// checkTime goes on with that much time for a table or an index.
func (a *archived) checkTime(limit time.Duration) {
	a.stop()
	a.keeping.Wait()
	a.driver.Close()
	a.s.o.CheckTime = limit
	a.open()
}

func (a *archived) mustLeaveNothing() {
	a.t.Helper()
	left, err := filepath.Glob(filepath.Join(a.s.o.DataDir, "scratch", "*"))
	if err != nil || len(left) > 0 {
		a.t.Errorf("left: %v %v", left, err)
	}
}
