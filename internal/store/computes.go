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

// CreateCompute adds a machine to c.Account, with default SSH settings.
func (q queries) CreateCompute(ctx context.Context, c monitor.Compute) (monitor.Compute, error) {
	row, err := q.q.ComputeCreate(ctx, dbsqlc.ComputeCreateParams{
		AccountID: int64(c.Account), Label: c.Label, GroupName: c.Group, Source: orNull(c.Source), Now: q.now(),
	})
	return toCompute(row), classify(err)
}

// Compute is one machine of the account.
func (q queries) Compute(ctx context.Context, in account.ID, id monitor.ComputeID) (monitor.Compute, error) {
	row, err := q.q.ComputeGet(ctx, int64(in), int64(id))
	return toCompute(row), classify(err)
}

// LockCompute reads a machine and keeps others from changing it until the
// transaction ends.
func (t *Tx) LockCompute(ctx context.Context, in account.ID, id monitor.ComputeID) (monitor.Compute, error) {
	row, err := t.q.ComputeLock(ctx, int64(in), int64(id))
	return toCompute(row), classify(err)
}

// ComputeFields are what machines can be filtered and ordered by.
var ComputeFields = filter.Fields{"id": filter.Number, "label": filter.Text, "group": filter.Text}

var computeColumns = columns{"id": "id", "label": "label", "group": "group_name"}

func scanCompute(row pgx.Row, more ...any) (monitor.Compute, error) {
	var r dbsqlc.Compute
	err := row.Scan(append([]any{
		&r.ID, &r.AccountID, &r.Label, &r.GroupName, &r.Source, &r.SshAccess, &r.SshUser, &r.SshIp, &r.SshPort, &r.SshHostKey, &r.Created, &r.Updated,
	}, more...)...)
	return toCompute(r), err
}

// Computes is one page of the account's machines, and how many match.
func (q queries) Computes(ctx context.Context, in account.ID, list ListQuery) ([]monitor.Compute, int, error) {
	l := listing[monitor.Compute]{
		sqlBuilder: sqlBuilder{columns: computeColumns}, own: "id", scan: scanCompute,
		what: "SELECT id, account_id, label, group_name, source, ssh_access, ssh_user, ssh_ip, ssh_port, ssh_host_key, created, updated",
	}
	l.from = "computes WHERE account_id = " + l.arg(int64(in))
	return l.page(ctx, q.db, list)
}

// AllComputes are the machines of all accounts: for operators and the sampler.
func (q queries) AllComputes(ctx context.Context) ([]monitor.Compute, error) {
	rows, err := q.q.ComputeAll(ctx)
	all := make([]monitor.Compute, len(rows))
	for i, r := range rows {
		all[i] = toCompute(r)
	}
	return all, classify(err)
}

// UpdateSSH writes a machine's SSH settings.
func (q queries) UpdateSSH(ctx context.Context, c monitor.Compute) error {
	n, err := q.q.ComputeUpdateSSH(ctx, dbsqlc.ComputeUpdateSSHParams{
		AccountID: int64(c.Account), ID: int64(c.ID), Updated: q.now(),
		SshAccess: c.SSH.Access, SshUser: orNull(c.SSH.User), SshIp: c.SSH.IP, SshPort: orNull(int32(c.SSH.Port)), SshHostKey: orNull(c.SSH.HostKey),
	})
	return oneRow(n, err)
}

// DeleteCompute removes a machine with what was known of its load.
func (q queries) DeleteCompute(ctx context.Context, in account.ID, id monitor.ComputeID) error {
	n, err := q.q.ComputeDelete(ctx, int64(in), int64(id))
	return oneRow(n, err)
}

func toCompute(r dbsqlc.Compute) monitor.Compute {
	return monitor.Compute{
		ID: monitor.ComputeID(r.ID), Account: account.ID(r.AccountID), Label: r.Label, Group: r.GroupName, Source: orZero(r.Source),
		SSH: monitor.SSHSettings{
			Access: r.SshAccess, User: orZero(r.SshUser), IP: r.SshIp, Port: int(orZero(r.SshPort)), HostKey: orZero(r.SshHostKey),
		},
		Created: r.Created, Updated: r.Updated,
	}
}
