package store

import (
	"context"
	"time"

	"steward/internal/store/dbsqlc"
)

// TakeRate adds n to what all servers have taken under key in a minute, and
// returns how much that is now.
func (q queries) TakeRate(ctx context.Context, key string, minute time.Time, n int) (int, error) {
	taken, err := q.q.RateTake(ctx, dbsqlc.RateTakeParams{Key: key, Minute: minute, N: int32(n)}) //nolint:gosec // a limit fits
	return int(taken), classify(err)
}

// PurgeRates forgets minutes before a time.
func (q queries) PurgeRates(ctx context.Context, before time.Time) error {
	return classify(q.q.RatesPurge(ctx, before))
}
