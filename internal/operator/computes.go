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

// AddCompute registers a machine of the named account, or of the first one.
func (x *Access) AddCompute(ctx context.Context, of, label, source, group string) (monitor.Compute, error) {
	owner, err := x.account(ctx, of)
	if err != nil {
		return monitor.Compute{}, err
	}
	return control.New(control.Deps{Store: x.store}).Computes.Register(ctx, account.Principal{Account: owner.ID}, monitor.Compute{Label: label, Group: group, Source: source})
}

// Computes are the machines of all accounts.
func (x *Access) Computes(ctx context.Context) ([]monitor.Compute, error) {
	return x.store.AllComputes(ctx)
}

// FindCompute looks a machine of any account up by id or label.
func (x *Access) FindCompute(ctx context.Context, idOrLabel string) (monitor.Compute, error) {
	all, err := x.Computes(ctx)
	if err != nil {
		return monitor.Compute{}, err
	}
	var labelled []monitor.Compute
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
		return monitor.Compute{}, fmt.Errorf("there is no machine %q: `steward compute list` has all", idOrLabel)
	case 1:
		return labelled[0], nil
	}
	return monitor.Compute{}, fmt.Errorf("%d accounts have a machine %q: give its id", len(labelled), idOrLabel)
}

// RemoveCompute removes a machine of any account. This host can't be removed: the
// next start would bring it back.
func (x *Access) RemoveCompute(ctx context.Context, idOrLabel string) (monitor.Compute, error) {
	c, err := x.FindCompute(ctx, idOrLabel)
	if err != nil {
		return c, err
	}
	if name, err := os.Hostname(); err == nil && c.Source == "" && c.Label == name {
		return c, fmt.Errorf("%s is this host; take staff's access away with `steward compute settings update %d --no-access`", c.Label, c.ID)
	}
	return c, control.New(control.Deps{Store: x.store}).Computes.Unregister(ctx, account.Principal{Account: c.Account}, c.ID)
}

// CheckCompute tries to log in to a machine of any account as staff do.
func CheckCompute(ctx context.Context, data, url string, c config.Config, idOrLabel string, newHostKey bool) (monitor.Compute, sshlogin.Report, error) {
	p, err := usedPaths(data, c)
	if err != nil {
		return monitor.Compute{}, sshlogin.Report{}, err
	}
	access, err := openSealedAccess(ctx, p, url, c)
	if err != nil {
		return monitor.Compute{}, sshlogin.Report{}, err
	}
	defer access.Close(ctx)
	machine, err := access.FindCompute(ctx, idOrLabel)
	if err != nil {
		return machine, sshlogin.Report{}, err
	}
	name, err := os.Hostname()
	if err != nil {
		return machine, sshlogin.Report{}, fmt.Errorf("find this host's name: %w", err)
	}
	report, err := control.New(control.Deps{Store: access.store}).Computes.Check(ctx, machine, control.Check{Host: name, NewHostKey: newHostKey})
	return machine, report, err
}
