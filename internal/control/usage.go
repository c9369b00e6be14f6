package control

import (
	"context"

	"steward/internal/account"
	"steward/internal/store"
)

// Usage is a page of what the account's databases were, by day, to ten minutes ago at least, and how many entries match.
func (s *Overview) Usage(ctx context.Context, p account.Principal, q store.ListQuery) ([]store.Usage, int, error) {
	if err := unrestricted(p); err != nil {
		return nil, 0, err
	}
	return s.Store.Usage(ctx, p.Account, q)
}
