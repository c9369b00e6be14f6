package control_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/store"
)

func (b *bench) machine(p account.Principal, label string) monitor.Machine {
	b.t.Helper()
	c, err := b.Machines.Register(b.t.Context(), p, monitor.Machine{Label: label, Group: "web", Source: "http://192.0.2.1:9100/metrics"})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func TestMachines(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, p, other := t.Context(), b.tenant("one"), b.tenant("two")
	for range 2 { // what every start does
		if err := b.store.EnsureHost(ctx, p.Account, "host"); err != nil {
			t.Fatal(err)
		}
	}
	web := b.machine(p, "web")
	all, total, err := b.Machines.List(ctx, p, store.ListQuery{})
	if err != nil || total != 2 || len(all) != 2 || all[0].Label != "host" || all[0].Source != "" || all[1] != web {
		t.Fatalf("listed %+v, %d, %v", all, total, err)
	}
	want := monitor.SSHSettings{Access: true, IP: monitor.AnyIP}
	if diff := cmp.Diff(want, web.SSH); diff != "" {
		t.Errorf("a new machine: -want +got\n%s", diff)
	}
	changed, err := b.Machines.Update(ctx, p, web.ID, monitor.SSHChange{User: new("ops"), Port: new(2222)}, nil)
	want.User, want.Port = "ops", 2222
	if diff := cmp.Diff(want, changed.SSH); err != nil || diff != "" {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
	if viewed, err := b.Machines.View(ctx, p, web.ID); err != nil || viewed.SSH != want {
		t.Errorf("viewed %+v, %v", viewed, err)
	}
	_, err = b.Machines.Update(ctx, p, web.ID, monitor.SSHChange{User: new("-x"), IP: new("nowhere")}, fault.Faults{fault.NewInvalid("ssh.port", "Must be 1-65535")})
	if diff := cmp.Diff([]string{
		"ssh.port: Must be 1-65535", "ssh.user: May only contain letters, digits, _, -, . and @, and must start with a letter, a digit or _",
		"ssh.ip: Must be an IPv4 or IPv6 address, or any",
	}, texts(err)); diff != "" {
		t.Errorf("all faults at once: -want +got\n%s", diff)
	}
	if _, err := b.Machines.Register(ctx, p, monitor.Machine{Label: "web", Source: "http://h/metrics"}); texts(err)[0] != "label: Label must be unique among the account's machines" {
		t.Errorf("a second of the same label: %v", err)
	}
	b.machine(other, "web")
	if err := b.Machines.Unregister(ctx, p, web.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Machines.View(ctx, p, web.ID); kind(err) != fault.NotFound {
		t.Errorf("a removed machine: %v", err)
	}
	b.checkMachineEvents(p, web)
}

func (b *bench) checkMachineEvents(p account.Principal, web monitor.Machine) {
	b.t.Helper()
	events, _, err := b.Events.List(b.t.Context(), p, store.ListQuery{})
	if err != nil {
		b.t.Fatal(err)
	}
	var actions []operation.Action
	for _, o := range events {
		actions = append(actions, o.Action)
		if want := (operation.Entity{Type: operation.Machine, ID: int64(web.ID)}); o.Entity != want || o.Label != "web" || o.Status != operation.Finished {
			b.t.Errorf("event %+v", o)
		}
	}
	if diff := cmp.Diff([]operation.Action{operation.ComputeDelete, operation.ComputeUpdate, operation.ComputeCreate}, actions); diff != "" {
		b.t.Errorf("events: -want +got\n%s", diff)
	}
}

func TestMachinesOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, p, other := t.Context(), b.tenant("one"), b.tenant("two")
	c := b.machine(p, "web")
	for name, try := range map[string]struct {
		who  account.Principal
		want fault.Kind
	}{
		"a stranger":        {other, fault.NotFound},
		"a restricted user": {b.restricted(p.Account, "limited"), fault.Forbidden},
	} {
		if _, err := b.Machines.View(ctx, try.who, c.ID); kind(err) != try.want {
			t.Errorf("%s views: %v", name, err)
		}
		if _, err := b.Machines.Update(ctx, try.who, c.ID, monitor.SSHChange{Access: new(false)}, nil); kind(err) != try.want {
			t.Errorf("%s updates: %v", name, err)
		}
		if all, total, err := b.Machines.List(ctx, try.who, store.ListQuery{}); len(all) > 0 || total > 0 || try.want == fault.Forbidden && kind(err) != try.want {
			t.Errorf("%s lists: %v, %v", name, all, err)
		}
	}
	if err := b.Machines.Unregister(ctx, other, c.ID); kind(err) != fault.NotFound {
		t.Errorf("removed in another account: %v", err)
	}
	if got, err := b.Machines.View(ctx, p, c.ID); err != nil || got != c {
		t.Errorf("%+v, %v: changed by others", got, err)
	}
}
