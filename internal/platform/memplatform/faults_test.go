package memplatform_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
)

type secrets map[platform.SecretName][]byte

func (s secrets) Secret(_ context.Context, _ cluster.ID, name platform.SecretName) ([]byte, error) {
	if v, ok := s[name]; ok {
		return v, nil
	}
	return nil, fault.NewNotFound()
}

func (s secrets) SaveSecret(_ context.Context, _ cluster.ID, name platform.SecretName, value []byte) error {
	s[name] = value
	return nil
}

func setup() (*memplatform.World, *memplatform.Driver, platform.Wanted) {
	world := memplatform.NewWorld()
	driver := memplatform.New(world, memplatform.Options{Secrets: secrets{
		platform.RootPassword: []byte("root"), platform.AdminPassword: []byte("admin"),
		platform.CACert: []byte("cert"), platform.CAKey: []byte("key"),
	}})
	return world, driver, platform.Wanted{
		Cluster: cluster.Cluster{ID: 7, Port: 21000, Spec: cluster.Spec{Engine: cluster.PostgreSQL, Series: "15", Size: 1}},
		Plan:    catalog.Plan{ID: "small", MemoryMB: 1024, DiskMB: 25600},
	}
}

func TestFaultBeforeAStepLeavesItUndoneAndAfterItDone(t *testing.T) {
	for _, after := range []bool{false, true} {
		world, driver, want := setup()
		driver.Inject(memplatform.Fault{Step: memplatform.StepFiles, After: after, Times: 1})
		if _, err := driver.Apply(t.Context(), want); !errors.Is(err, memplatform.ErrInjected) {
			t.Fatalf("after=%v: got %v, want the injected fault", after, err)
		}
		if _, there := world.Cluster(want.ID); there != after {
			t.Errorf("after=%v: cluster there: %v", after, there)
		}
		if seen, err := driver.Apply(t.Context(), want); err != nil || !seen.Settled {
			t.Errorf("after=%v: second pass: settled=%v, %v", after, seen.Settled, err)
		}
	}
}

func TestPermanentFaultIsReportedNotReturned(t *testing.T) {
	_, driver, want := setup()
	driver.Inject(memplatform.Fault{Step: memplatform.StepStart, Problem: "no memory left"})
	seen, err := driver.Apply(t.Context(), want)
	if err != nil || !seen.Permanent || seen.Problem != "no memory left" || seen.Settled {
		t.Errorf("got %+v, %v", seen, err)
	}
}

func TestSlowStepEndsWithTheContext(t *testing.T) {
	_, driver, want := setup()
	driver.Inject(memplatform.Fault{Step: memplatform.StepStart, Delay: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := driver.Apply(ctx, want); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestFaultOfOneClusterSparesOthers(t *testing.T) {
	_, driver, want := setup()
	driver.Inject(memplatform.Fault{Step: memplatform.StepFiles, Cluster: 99})
	if _, err := driver.Apply(t.Context(), want); err != nil {
		t.Error(err)
	}
}

func TestAReplicaTakesOverFromALostPrimary(t *testing.T) {
	world, driver, want := setup()
	want.Size = 3
	if seen, err := driver.Apply(t.Context(), want); err != nil || !seen.Settled || seen.Healthy != 3 {
		t.Fatalf("%+v, %v", seen, err)
	}
	for lost, check := range []func(platform.Observed) bool{
		func(o platform.Observed) bool {
			return o.Serving && o.Degraded && !o.Settled && o.Healthy == 2 && o.Failovers == 1
		},
		func(o platform.Observed) bool { return o.Serving && o.Degraded && o.Healthy == 1 && o.Failovers == 2 },
		func(o platform.Observed) bool { return !o.Serving && !o.Degraded && o.Healthy == 0 && o.Failovers == 2 },
	} {
		driver.LosePrimary(want.ID)
		if seen, err := driver.Apply(t.Context(), want); err != nil || !check(seen) || seen.FailoverReason == "" {
			t.Errorf("after %d losses: %+v, %v", lost+1, seen, err)
		}
	}
	driver.Mend(want.ID)
	if seen, _ := driver.Observe(t.Context(), want.ID); !seen.Settled || seen.Healthy != 3 || seen.Failovers != 2 {
		t.Errorf("mended: %+v", seen)
	}
	driver.LoseReplica(want.ID)
	if seen, _ := driver.Observe(t.Context(), want.ID); !seen.Serving || !seen.Degraded || seen.Healthy != 2 || seen.Failovers != 2 {
		t.Errorf("a replica lost: %+v", seen)
	}
	if c, _ := world.Cluster(want.ID); c.Starts != 1 {
		t.Errorf("started %d times", c.Starts)
	}
}
