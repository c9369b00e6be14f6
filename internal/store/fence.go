package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"steward/internal/store/dbsqlc"
)

// fence is a lease as those who write under it name it.
type fence struct{ key, token int64 }

type fenceKey struct{}

// withFence has all that is written under the context come with the lease's token.
func withFence(ctx context.Context, f fence) context.Context {
	return context.WithValue(ctx, fenceKey{}, f)
}

func fenced(ctx context.Context) bool {
	_, ok := ctx.Value(fenceKey{}).(fence)
	return ok
}

// checkFence is ErrLeaseLost when somebody else has taken the context's lease. Until
// the transaction ends nobody can: the row that holds the token is locked.
func checkFence(ctx context.Context, tx pgx.Tx) error {
	f, ok := ctx.Value(fenceKey{}).(fence)
	if !ok {
		return nil
	}
	held, err := dbsqlc.New(tx).LeaseHeld(ctx, f.key, f.token)
	if err != nil {
		return fmt.Errorf("check the lease: %w", err)
	}
	if held == 0 {
		return ErrLeaseLost
	}
	return nil
}
