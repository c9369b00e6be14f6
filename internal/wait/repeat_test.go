package wait

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestRepeat: what was held up is made up for once, and nothing is done any more when the context has ended.
func TestRepeat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		repeat func(context.Context, time.Duration, func())
		want   []int
	}{
		"at once":           {Repeat, []int{0, 10, 25, 30, 40}},
		"after an interval": {Every, []int{10, 20, 35, 40}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var at []int
				ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
				defer cancel()
				c.repeat(ctx, 10*time.Second, func() {
					at = append(at, int(time.Since(began).Seconds()))
					if len(at) == 2 {
						time.Sleep(15 * time.Second)
					}
				})
				if !slices.Equal(at, c.want) {
					t.Errorf("done after %v seconds, want %v", at, c.want)
				}
				if took := time.Since(began); took != 45*time.Second {
					t.Errorf("it ended after %v", took)
				}
			})
		})
	}
}
