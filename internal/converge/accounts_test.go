package converge_test

import (
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/converge"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/store"
)

// tenants is a bench of an account of an operator's making, with a database in each
// status that a test needs.
type tenants struct {
	*bench
	id account.ID
}

func newTenants(t *testing.T) *tenants {
	t.Helper()
	b := &tenants{bench: newBench(t)}
	made, err := b.control.Accounts.Create(t.Context(), "acme", control.AccountChange{}, nil, account.Audit{})
	if err != nil {
		t.Fatal(err)
	}
	user, err := b.store.CreateUser(t.Context(), account.User{Account: made.ID, Username: "ann", Email: "ann@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	b.id, b.admin = made.ID, account.Principal{Account: made.ID, User: user, Scopes: account.FullScopes()}
	b.restart()
	return b
}

// restart replaces the keeper, which looks after accounts often.
func (b *tenants) restart() {
	b.keeper.Stop()
	b.keep(converge.Options{Every: 50 * time.Millisecond, Grace: 300 * time.Millisecond, Accounts: 25 * time.Millisecond})
}

// work carries out what is to be done, as the job queue has workers do it, until an
// account is as it should be.
func (b *tenants) work(what string, done func() bool) {
	b.t.Helper()
	await.True(b.t, what, func() bool {
		all, err := b.store.ClustersForWork(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		for _, c := range all {
			going, err := b.store.UnfinishedOperations(b.t.Context(), c.ID)
			if err != nil {
				b.t.Fatal(err)
			}
			for _, o := range going {
				if _, woken := b.woken.Load(o.ID); !woken {
					continue
				}
				if _, err := b.operator.Run(b.t.Context(), o.ID); err != nil {
					b.t.Fatal(err)
				}
			}
		}
		return done()
	})
}

func (b *tenants) settled() bool {
	n, err := b.store.AccountUnsettled(b.t.Context(), b.id)
	if err != nil {
		b.t.Fatal(err)
	}
	return n == 0
}

func (b *tenants) asked(_ account.Account, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestSuspendedAccount: its databases rest; a resume brings back those that rested with it,
// and not the one that its owner suspended.
func TestSuspendedAccount(t *testing.T) {
	t.Parallel()
	b := newTenants(t)
	ctx := t.Context()
	one, three, own := b.active(), b.activeOf(3), b.active()
	if err := b.control.Clusters.Suspend(ctx, b.admin, "", own.ID); err != nil {
		t.Fatal(err)
	}
	b.run()
	b.mustBecome(own.ID, cluster.Suspended)
	b.asked(b.control.Accounts.Suspend(ctx, "acme", account.Audit{}))
	b.work("all rest", b.settled)
	for _, c := range []cluster.Cluster{one, three, own} {
		seen, err := b.driver.Observe(ctx, c.ID)
		if err != nil || !seen.Suspended || b.view(c.ID).Status != cluster.Suspended {
			t.Errorf("database %d is %s and %+v, %v", c.ID, b.view(c.ID).Status, seen, err)
		}
	}
	b.restart() // what is to come back is in the rows
	b.asked(b.control.Accounts.Resume(ctx, "acme", account.Audit{}))
	b.work("those of the account are back", b.settled)
	for id, want := range map[cluster.ID]cluster.Status{one.ID: cluster.Active, three.ID: cluster.Active, own.ID: cluster.Suspended} {
		if got := b.view(id).Status; got != want {
			t.Errorf("database %d is %s, not %s", id, got, want)
		}
	}
	b.ownersWord(one)
	if all, err := b.store.AccountsToSettle(ctx); err != nil || len(all) != 0 {
		t.Errorf("there is always something to do: %v %v", all, err)
	}
}

// ownersWord: what an owner resumed before upkeep did, and then suspended, stays so.
func (b *tenants) ownersWord(c cluster.Cluster) {
	b.t.Helper()
	ctx := b.t.Context()
	b.asked(b.control.Accounts.Suspend(ctx, "acme", account.Audit{}))
	b.work("all rest again", b.settled)
	b.keeper.Stop()
	b.asked(b.control.Accounts.Resume(ctx, "acme", account.Audit{}))
	for _, step := range []struct {
		ask    func() error
		status cluster.Status
	}{
		{func() error { return b.control.Clusters.Resume(ctx, b.admin, "", c.ID) }, cluster.Active},
		{func() error { return b.control.Clusters.Suspend(ctx, b.admin, "", c.ID) }, cluster.Suspended},
	} {
		if err := step.ask(); err != nil {
			b.t.Fatal(err)
		}
		b.run()
		b.mustBecome(c.ID, step.status)
	}
	b.restart()
	b.work("the others are back", b.settled)
	if got := b.view(c.ID).Status; got != cluster.Suspended {
		b.t.Errorf("what its owner suspended is %s", got)
	}
}

// TestDeletedAccount: databases, whatever their status, and all else go; of another
// account nothing does. The keeper is replaced again and again meanwhile.
func TestDeletedAccount(t *testing.T) {
	t.Parallel()
	b := newTenants(t)
	ctx := t.Context()
	mine := b.admin
	if err := b.store.InTx(ctx, func(tx *store.Tx) error {
		user, err := tx.EnsureAdmin(ctx)
		b.admin = account.Principal{Account: user.Account, User: user, Scopes: account.FullScopes()}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	theirs := b.active()
	others := b.admin
	b.admin = mine
	active, resting := b.active(), b.active()
	if err := b.control.Clusters.Suspend(ctx, b.admin, "", resting.ID); err != nil {
		t.Fatal(err)
	}
	b.run()
	b.mustBecome(resting.ID, cluster.Suspended)
	// Its work hasn't begun: a delete has to wait until it has ended.
	if err := b.control.Clusters.Patch(ctx, b.admin, "", active.ID); err != nil {
		t.Fatal(err)
	}
	b.has(mine)
	b.asked(b.control.Accounts.Delete(ctx, "acme", account.Audit{}))
	gone := func() bool {
		_, err := b.store.Account(ctx, b.id)
		return fault.IsKind(err, fault.NotFound)
	}
	b.work("the account is gone", func() bool {
		b.restart()
		return gone()
	})
	for _, c := range []cluster.Cluster{active, resting} {
		if seen, err := b.driver.Observe(ctx, c.ID); err != nil || seen.Exists {
			t.Errorf("database %d is still there: %+v %v", c.ID, seen, err)
		}
	}
	b.nothingOf(b.id)
	b.admin = others
	if got := b.view(theirs.ID).Status; got != cluster.Active {
		t.Errorf("another account's database is %s", got)
	}
}

// has gives an account one of everything that isn't a database's.
func (b *tenants) has(p account.Principal) {
	b.t.Helper()
	ctx := b.t.Context()
	err := b.store.InTx(ctx, func(tx *store.Tx) error {
		service, err := tx.CreateService(ctx, monitor.Service{Account: p.Account, Label: "web", Type: monitor.URL, Address: "http://192.0.2.1/", Status: monitor.Pending, Timeout: 5})
		if err != nil {
			return err
		}
		now := time.Now()
		for _, sql := range []string{
			"INSERT INTO contacts (account_id, name, email, created, updated) VALUES ($1, 'ann', 'a@example.org', $2, $2)",
			"INSERT INTO account_keys (account_id, name, sealed, created) VALUES ($1, 'data', '', $2)",
			"INSERT INTO credentials (account_id, label, sealed_password, created, updated) VALUES ($1, 'root', '', $2, $2)",
			"INSERT INTO credential_reveals (account_id, credential_id, label, staff, purpose, created) VALUES ($1, 1, 'root', 'bob', '', $2)",
			"INSERT INTO computes (account_id, label, created, updated) VALUES ($1, 'host', $2, $2)",
			"INSERT INTO tickets (account_id, summary, status, opened, updated) VALUES ($1, 'down', 'open', $2, $2)",
			"INSERT INTO issues (account_id, ticket_id, host, created) SELECT $1, id, 'x', $2 FROM tickets WHERE account_id = $1",
			"INSERT INTO notices (account_id, issue_id, kind, channel, recipient, name, content, state, due, give_up, created) SELECT $1, id, 'opened', 'email', 'a', 'a', '{}', 'pending', $2, $2, $2 FROM issues WHERE account_id = $1",
			"INSERT INTO oauth_clients (id, account_id, user_id, label, redirect_uri, public, secret_hash, own_scopes, created) SELECT 'app', $1, id, 'app', 'https://x/', false, '', '*', $2 FROM users WHERE account_id = $1",
		} {
			if _, err := tx.Pgx().Exec(ctx, sql, int64(p.Account), now); err != nil {
				return err
			}
		}
		_, err = tx.CreateOperation(ctx, operation.Operation{
			Account: p.Account, Entity: operation.Entity{Type: operation.Service, ID: int64(service.ID)}, Action: operation.ServiceCreate, Status: operation.Finished,
		})
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// nothingOf looks through every table that has rows of accounts. The audit trail and
// what expires by itself stay.
func (b *tenants) nothingOf(id account.ID) {
	b.t.Helper()
	rows, err := b.store.Pool().Query(b.t.Context(), `SELECT table_name FROM information_schema.columns
		WHERE table_schema = current_schema() AND column_name = 'account_id' AND table_name <> 'audit'`)
	if err != nil {
		b.t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			b.t.Fatal(err)
		}
		tables = append(tables, name)
	}
	if len(tables) < 12 {
		b.t.Errorf("only %v have an account_id: the look is blind", tables)
	}
	for _, table := range tables {
		var n int
		if err := b.store.Pool().QueryRow(b.t.Context(), "SELECT count(*) FROM "+table+" WHERE account_id = $1", int64(id)).Scan(&n); err != nil || n > 0 {
			b.t.Errorf("%d rows are left in %s, %v", n, table, err)
		}
	}
}
