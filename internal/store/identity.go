package store

import "context"

// Identity tells this store from all others; servers that share it have the same.
func (q queries) Identity(ctx context.Context) (string, error) {
	id, err := q.q.Identity(ctx)
	return id, classify(err)
}
