package converge_test

import (
	"strings"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/operation"
)

// TestSleepIsTold: once that it begins and once that it ends, with the reason; the status stays.
func TestSleepIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.activeOf(3)
	await.True(t, "it is adopted", func() bool { return b.applied() >= 1 })
	since := time.Now().UTC().Truncate(time.Second)
	b.driver.Sleep(c.ID, since, "")
	await.True(t, "that it sleeps is known", func() bool {
		now := b.view(c.ID).SleepingSince
		return now != nil && now.Equal(since)
	})
	b.lookedAgain(c.ID)
	b.mustHaveEvents(c.ID, operation.FellAsleep)
	b.driver.Sleep(c.ID, time.Time{}, "a backup")
	await.True(t, "that it woke is known", func() bool { return b.view(c.ID).SleepingSince == nil })
	b.lookedAgain(c.ID)
	b.mustHaveEvents(c.ID, operation.FellAsleep, operation.Woke)
	if e := b.events(c.ID)[1]; !strings.Contains(e.Message, "for a backup") {
		t.Errorf("event: %+v", e)
	}
	if now := b.view(c.ID); now.Status != cluster.Active {
		t.Errorf("it is %s", now.Status)
	}
}
