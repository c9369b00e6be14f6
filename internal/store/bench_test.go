package store_test

import (
	"testing"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// BenchmarkRead compares what an authenticated view of one database asks of
// the store with one plain SELECT.
func BenchmarkRead(b *testing.B) {
	s := pgtest.Store(b)
	ctx := b.Context()
	var u account.User
	err := s.InTx(ctx, func(tx *store.Tx) (err error) {
		u, err = tx.EnsureAdmin(ctx)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	c, err := create(ctx, s, u.Account, spec("read"))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.CreateToken(ctx, account.Token{User: u.ID, Scopes: account.FullScopes()}, hashOf("t")); err != nil {
		b.Fatal(err)
	}
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(4)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := f(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
	run("plain", func() error {
		var label string
		return s.Pool().QueryRow(ctx, "SELECT label FROM clusters WHERE id = $1", int64(c.ID)).Scan(&label)
	})
	run("principal", func() error { _, err := s.Principal(ctx, hashOf("t")); return err })
	v := store.Viewer{Account: u.Account}
	run("cluster", func() error { _, err := s.Cluster(ctx, v, cluster.PostgreSQL, c.ID); return err })
	run("both", func() error {
		if _, err := s.Principal(ctx, hashOf("t")); err != nil {
			return err
		}
		_, err := s.Cluster(ctx, v, cluster.PostgreSQL, c.ID)
		return err
	})
}
