package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/filter"
	"steward/internal/monitor"
	"steward/internal/store/dbsqlc"
)

// EnsureHost makes a steward server's own host one of the account's machines,
// unless it is already.
func (q queries) EnsureHost(ctx context.Context, in account.ID, hostname string) error {
	return classify(q.q.ComputeEnsure(ctx, dbsqlc.ComputeEnsureParams{AccountID: int64(in), Label: hostname, Now: q.now()}))
}

// CreateMachine adds a machine to c.Account, with default SSH settings.
func (q queries) CreateMachine(ctx context.Context, c monitor.Machine) (monitor.Machine, error) {
	row, err := q.q.ComputeCreate(ctx, dbsqlc.ComputeCreateParams{
		AccountID: int64(c.Account), Label: c.Label, GroupName: c.Group, Source: orNull(c.Source), Now: q.now(),
	})
	return toMachine(row), classify(err)
}

// Machine is one machine of the account.
func (q queries) Machine(ctx context.Context, in account.ID, id monitor.MachineID) (monitor.Machine, error) {
	row, err := q.q.ComputeGet(ctx, int64(in), int64(id))
	return toMachine(row), classify(err)
}

// LockMachine reads a machine and keeps others from changing it until the
// transaction ends.
func (t *Tx) LockMachine(ctx context.Context, in account.ID, id monitor.MachineID) (monitor.Machine, error) {
	row, err := t.q.ComputeLock(ctx, int64(in), int64(id))
	return toMachine(row), classify(err)
}

// MachineFields are what machines can be filtered and ordered by.
var MachineFields = filter.Fields{"id": filter.Number, "label": filter.Text, "group": filter.Text}

var machineColumns = columns{"id": "id", "label": "label", "group": "group_name"}

func scanMachine(row pgx.Row, more ...any) (monitor.Machine, error) {
	var r dbsqlc.Compute
	err := row.Scan(append([]any{
		&r.ID, &r.AccountID, &r.Label, &r.GroupName, &r.Source, &r.SshAccess, &r.SshUser, &r.SshIp, &r.SshPort, &r.SshHostKey, &r.Created, &r.Updated,
	}, more...)...)
	return toMachine(r), err
}

// Machines is one page of the account's machines, and how many match.
func (q queries) Machines(ctx context.Context, in account.ID, list ListQuery) ([]monitor.Machine, int, error) {
	l := listing[monitor.Machine]{
		sqlBuilder: sqlBuilder{columns: machineColumns}, own: "id", scan: scanMachine,
		what: "SELECT id, account_id, label, group_name, source, ssh_access, ssh_user, ssh_ip, ssh_port, ssh_host_key, created, updated",
	}
	l.from = "computes WHERE account_id = " + l.arg(int64(in))
	return l.page(ctx, q.db, list)
}

// AllMachines are the machines of all accounts: for operators and the sampler.
func (q queries) AllMachines(ctx context.Context) ([]monitor.Machine, error) {
	rows, err := q.q.ComputeAll(ctx)
	all := make([]monitor.Machine, len(rows))
	for i, r := range rows {
		all[i] = toMachine(r)
	}
	return all, classify(err)
}

// UpdateSSH writes a machine's SSH settings.
func (q queries) UpdateSSH(ctx context.Context, c monitor.Machine) error {
	n, err := q.q.ComputeUpdateSSH(ctx, dbsqlc.ComputeUpdateSSHParams{
		AccountID: int64(c.Account), ID: int64(c.ID), Updated: q.now(),
		SshAccess: c.SSH.Access, SshUser: orNull(c.SSH.User), SshIp: c.SSH.IP, SshPort: orNull(int32(c.SSH.Port)), SshHostKey: orNull(c.SSH.HostKey),
	})
	return oneRow(n, err)
}

// DeleteMachine removes a machine with what was known of its load.
func (q queries) DeleteMachine(ctx context.Context, in account.ID, id monitor.MachineID) error {
	n, err := q.q.ComputeDelete(ctx, int64(in), int64(id))
	return oneRow(n, err)
}

func toMachine(r dbsqlc.Compute) monitor.Machine {
	return monitor.Machine{
		ID: monitor.MachineID(r.ID), Account: account.ID(r.AccountID), Label: r.Label, Group: r.GroupName, Source: orZero(r.Source),
		SSH: monitor.SSHSettings{
			Access: r.SshAccess, User: orZero(r.SshUser), IP: r.SshIp, Port: int(orZero(r.SshPort)), HostKey: orZero(r.SshHostKey),
		},
		Created: r.Created, Updated: r.Updated,
	}
}
