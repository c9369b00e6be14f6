package memplatform_test

import (
	"context"
	"net/netip"
	"testing"

	"steward/internal/cluster"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
	"steward/internal/platform/platformtest"
)

func TestPlatform(t *testing.T) {
	for _, b := range []platformtest.Bench{
		{Engine: cluster.PostgreSQL, Series: "15", Older: "postgresql-15.1-memory", Newer: "postgresql-15.2-memory"},
		{Engine: cluster.MySQL, Series: "10.11", Encrypted: true},
	} {
		t.Run(string(b.Engine), func(t *testing.T) {
			world := memplatform.NewWorld()
			b.Port, b.Secrets = 21000, platformtest.NewSecrets()
			b.Sizes, b.Suspends, b.Restarts = []int{3}, true, true
			b.Open = func(*testing.T) (platform.Driver, func()) {
				return memplatform.New(world, memplatform.Options{Secrets: b.Secrets, Keeps: true}), func() {}
			}
			b.Login = func(_ context.Context, c cluster.Cluster, from netip.Addr, password string) error {
				return world.Login(c.ID, from, password)
			}
			b.Kill = func(_ *testing.T, d platform.Driver, id cluster.ID) { d.(*memplatform.Driver).Crash(id) }
			b.Reboot = func(*testing.T) { world.Reboot() }
			b.Orphan = func(_ *testing.T, id cluster.ID, port int) {
				world.Put(memplatform.Cluster{ID: id, Port: port, Running: true})
			}
			b.Leftovers = func(_ *testing.T, id cluster.ID, _ int) []string {
				if _, there := world.Cluster(id); there {
					return []string{"cluster"}
				}
				return nil
			}
			b.Keeps = &platformtest.Keeping{
				Hold: func(_ *testing.T, c cluster.Cluster, data string) {
					world.Edit(c.ID, func(c *memplatform.Cluster) { c.Data = data })
				},
				Held: func(_ *testing.T, c cluster.Cluster) string {
					real, _ := world.Cluster(c.ID)
					return real.Data
				},
				Stored: func(_ *testing.T, c cluster.Cluster) []string { return world.Kept(c.ID) },
			}
			platformtest.Run(t, &b)
		})
	}
}
