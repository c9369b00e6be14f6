// Package control holds the use cases: authorise, validate with all faults at
// once, one transaction. It knows neither HTTP nor how databases are run. The
// token's scope is checked by the door; everything about the user and the
// tenant is checked here.
package control

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"steward/internal/account"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/limit"
	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/operation"
	"steward/internal/outage"
	"steward/internal/platform"
	"steward/internal/store"
)

// Deps are what the use cases work with.
type Deps struct {
	Store   *store.Store
	Catalog *catalog.Catalog
	// Enqueue adds a wake-up for an operation to the transaction.
	Enqueue func(ctx context.Context, tx *store.Tx, id operation.ID) error
	// Continuous reports whether what servers write between backups is archived.
	Continuous bool
	// Backups reports whether databases are backed up every day, and Verified whether each backup is tried out then.
	Backups, Verified bool
	// KeepFinal is how long the last backup of a deleted database is kept for its owner; 0 for none.
	KeepFinal time.Duration
	// Ports are the first and the last port that databases are given.
	Ports [2]int
	// PortUsable reports whether no other program has a port; nil when none has any.
	PortUsable func(port int) bool
	// CanSleep reports whether databases that nobody uses can sleep here, and AutoSuspend
	// after how many minutes those do that don't say; 0 for never.
	CanSleep    bool
	AutoSuspend int
	// Pools is what connection pools can be had here.
	Pools PoolAbility
	// LoginsPerMinute bounds attempts to log in that fail, per user; 0: unbounded.
	LoginsPerMinute int
	// PasswordCost is what hashing a password takes; RFC 9106's recommendation when zero.
	PasswordCost PasswordCost
	// Quotas bound accounts that have none of their own.
	Quotas account.Quotas
	// Checks bounds how often services may be checked.
	Checks CheckQuota
	// Networks are where services may be.
	Networks *monitor.Networks
	// Issues opens and closes issues.
	Issues outage.IssueTracker
	Logger *slog.Logger
	// Platform looks into databases for their owners, and changes what is inside.
	Platform interface {
		platform.Inspector
		platform.Shaper
		platform.Importer
	}
	// Sources says where databases may be brought over from, and connects there.
	Sources platform.SourceDialer
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// SharedRates counts requests together with other servers; nil where there are none.
	SharedRates limit.Shared
	// OnlyServer reports whether no other server shares the store, so that whom a
	// token stands for may be remembered between requests.
	OnlyServer bool

	// Measurements are those that the store hasn't got yet; nil where nothing measures. Scraper asks servers.
	Measurements Measurements
	Scraper      Scraper
	// Senders send notices, by channel.
	Senders map[string]notify.Sender

	principals *principals
}

// Control is all use cases, by noun.
type Control struct {
	Accounts           *Accounts
	Alerts             *Alerts
	AlertChannels      *AlertChannels
	Clusters           *Clusters
	Backups            *Backups
	Nodes              *Nodes
	Queries            *Queries
	Logical            *Logical
	Pools              *Pools
	Migrations         *Migrations
	Logs               *Logs
	Maintenance        *Maintenance
	Overview           *Overview
	Events             *Events
	Users              *Users
	Tokens             *Tokens
	Auth               *Auth
	Contacts           *Contacts
	ManagedCredentials *ManagedCredentials
	Services           *Services
	Issues             *Issues
	Tickets            *Tickets
	StatusPages        *StatusPages
	// Authorizations are what users allowed applications.
	Authorizations *Authorizations
	Clients        *Clients
	Logins         *Logins
	Machines       *Machines
	SSHKeys        *SSHKeys
	Metrics        *Metrics
	// Operators are those of the installation.
	Operators *Operators
	// SharedRates is the count of requests that this server shares with others;
	// nil when there are none.
	SharedRates limit.Shared
}

// New makes the use cases.
func New(d Deps) *Control {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.OnlyServer {
		d.principals = newPrincipals()
	}
	return &Control{
		Accounts:           &Accounts{d},
		Alerts:             &Alerts{d},
		AlertChannels:      &AlertChannels{Deps: d},
		Clusters:           &Clusters{clusterChanges{d}},
		Backups:            &Backups{clusterChanges{d}},
		Nodes:              &Nodes{d},
		Logical:            &Logical{clusterChanges{d}},
		Pools:              &Pools{clusterChanges{d}},
		Migrations:         &Migrations{clusterChanges{d}},
		Logs:               &Logs{d},
		Queries:            &Queries{clusterChanges{d}},
		Maintenance:        &Maintenance{d},
		Overview:           &Overview{d},
		Events:             &Events{d, newEventHub(d)},
		Users:              &Users{d},
		Tokens:             &Tokens{d},
		Auth:               &Auth{d},
		Logins:             newLogins(d),
		Clients:            &Clients{d},
		Authorizations:     &Authorizations{d},
		SharedRates:        d.SharedRates,
		Contacts:           &Contacts{d},
		ManagedCredentials: &ManagedCredentials{d},
		Services:           &Services{d},
		Issues:             &Issues{d},
		Tickets:            &Tickets{d},
		StatusPages:        &StatusPages{d},
		Machines:           &Machines{d},
		SSHKeys:            &SSHKeys{d},
		Metrics:            &Metrics{d},
		Operators:          &Operators{d},
	}
}

// begin records an operation on a cluster and wakes a worker for it, in tx.
func (d Deps) begin(ctx context.Context, tx *store.Tx, p account.Principal, c cluster.Cluster, action operation.Action, params operation.Params) error {
	o, err := tx.CreateOperation(ctx, operation.Operation{
		Account: c.Account, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Action: action,
		Status: operation.Scheduled, Username: p.User.Username, Params: params,
	})
	if err != nil {
		return err
	}
	return d.Enqueue(ctx, tx, o.ID)
}

// tell records, in tx, that the caller changed what isn't a database.
func (d Deps) tell(ctx context.Context, tx *store.Tx, p account.Principal, action operation.Action, of operation.Entity, label string) error {
	_, err := tx.CreateOperation(ctx, operation.Operation{
		Account: p.Account, Entity: of, Label: label, Action: action, Status: operation.Finished, Username: p.User.Username,
	})
	return err
}

// unrestricted is nil for a user that grants don't bind.
func unrestricted(p account.Principal) error {
	if p.User.Restricted {
		return fault.NewForbidden()
	}
	return nil
}

// unrestrictedPage is a page of what an unrestricted user's account has.
func unrestrictedPage[T any](ctx context.Context, p account.Principal, q store.ListQuery, list func(context.Context, account.ID, store.ListQuery) ([]T, int, error)) ([]T, int, error) {
	if err := unrestricted(p); err != nil {
		return nil, 0, err
	}
	return list(ctx, p.Account, q)
}

// unrestrictedOne is one of the things that an unrestricted user's account has.
func unrestrictedOne[ID, T any](ctx context.Context, p account.Principal, id ID, view func(context.Context, account.ID, ID) (T, error)) (found T, err error) {
	if err := unrestricted(p); err != nil {
		return found, err
	}
	return view(ctx, p.Account, id)
}

// unrestrictedDelete removes one of the things that an unrestricted user's account has, and records that it did. named says what that was.
func unrestrictedDelete[ID, T any](ctx context.Context, d Deps, p account.Principal, id ID, action operation.Action,
	lock func(*store.Tx, context.Context, account.ID, ID) (T, error), drop func(*store.Tx, context.Context, account.ID, ID) error,
	named func(T) (of operation.Entity, label string),
) error {
	if err := unrestricted(p); err != nil {
		return err
	}
	return d.Store.InTx(ctx, func(tx *store.Tx) error {
		gone, err := lock(tx, ctx, p.Account, id)
		if err != nil {
			return err
		}
		if err := drop(tx, ctx, p.Account, id); err != nil {
			return err
		}
		of, label := named(gone)
		return d.tell(ctx, tx, p, action, of, label)
	})
}

// changed is what a member of a change asks for, or what was before.
func changed[T any](asked *T, before T) T {
	if asked == nil {
		return before
	}
	return *asked
}

// combine adds what was found here to what the door found already. A field that
// the door names isn't named again: a missing engine isn't also an unknown one.
func combine(door, found fault.Faults) fault.Faults {
	all := slices.Clone(door)
	for _, f := range found {
		named := func(d *fault.Fault) bool { return d.Field == f.Field && f.Field != "" }
		if !slices.ContainsFunc(door, named) {
			all = append(all, f)
		}
	}
	return all
}

// faultsIn are the faults an error is made of; none for nil.
func faultsIn(err error) fault.Faults {
	found, _ := fault.All(err)
	return found
}
