package operator

import (
	"context"
	"fmt"
	"os"

	"steward/internal/account"
	"steward/internal/config"
	"steward/internal/control"
	"steward/internal/monitor"
	"steward/internal/sshlogin"
)

// AddMachine registers a machine of the named account, or of the first one.
func (x *Access) AddMachine(ctx context.Context, of, label, source, group string) (monitor.Machine, error) {
	owner, err := x.account(ctx, of)
	if err != nil {
		return monitor.Machine{}, err
	}
	return control.New(control.Deps{Store: x.store}).Machines.Register(ctx, account.Principal{Account: owner.ID}, monitor.Machine{Label: label, Group: group, Source: source})
}

// Machines are the machines of all accounts.
func (x *Access) Machines(ctx context.Context) ([]monitor.Machine, error) {
	return x.store.AllMachines(ctx)
}

// FindMachine looks a machine of any account up by id or label.
func (x *Access) FindMachine(ctx context.Context, idOrLabel string) (monitor.Machine, error) {
	all, err := x.Machines(ctx)
	if err != nil {
		return monitor.Machine{}, err
	}
	var labelled []monitor.Machine
	for _, c := range all {
		if fmt.Sprint(c.ID) == idOrLabel {
			return c, nil
		}
		if c.Label == idOrLabel {
			labelled = append(labelled, c)
		}
	}
	switch len(labelled) {
	case 0:
		return monitor.Machine{}, fmt.Errorf("there is no machine %q: `steward compute list` has all", idOrLabel)
	case 1:
		return labelled[0], nil
	}
	return monitor.Machine{}, fmt.Errorf("%d accounts have a machine %q: give its id", len(labelled), idOrLabel)
}

// RemoveMachine removes a machine of any account. This host can't be removed: the
// next start would bring it back.
func (x *Access) RemoveMachine(ctx context.Context, idOrLabel string) (monitor.Machine, error) {
	c, err := x.FindMachine(ctx, idOrLabel)
	if err != nil {
		return c, err
	}
	if name, err := os.Hostname(); err == nil && c.Source == "" && c.Label == name {
		return c, fmt.Errorf("%s is this host; take staff's access away with `steward compute settings update %d --no-access`", c.Label, c.ID)
	}
	return c, control.New(control.Deps{Store: x.store}).Machines.Unregister(ctx, account.Principal{Account: c.Account}, c.ID)
}

// CheckMachine tries to log in to a machine of any account as staff do.
func CheckMachine(ctx context.Context, data, url string, c config.Config, idOrLabel string, newHostKey bool) (monitor.Machine, sshlogin.Report, error) {
	p, err := usedPaths(data, c)
	if err != nil {
		return monitor.Machine{}, sshlogin.Report{}, err
	}
	access, err := openSealedAccess(ctx, p, url, c)
	if err != nil {
		return monitor.Machine{}, sshlogin.Report{}, err
	}
	defer access.Close(ctx)
	machine, err := access.FindMachine(ctx, idOrLabel)
	if err != nil {
		return machine, sshlogin.Report{}, err
	}
	name, err := os.Hostname()
	if err != nil {
		return machine, sshlogin.Report{}, fmt.Errorf("find this host's name: %w", err)
	}
	report, err := control.New(control.Deps{Store: access.store}).Machines.Check(ctx, machine, control.Check{Host: name, NewHostKey: newHostKey})
	return machine, report, err
}
