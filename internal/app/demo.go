package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"steward/internal/account"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/store"
	"steward/internal/wait"
)

// demoLabel is what the demo database is called.
const demoLabel = "demo"

// demo makes one small PostgreSQL database on an empty store, and prints the
// line that reaches it.
func (a *App) demo(ctx context.Context, out io.Writer) error {
	p, err := a.adminPrincipal(ctx)
	if err != nil {
		return err
	}
	all, total, err := a.control.Clusters.List(ctx, p, "", store.ListQuery{})
	if err != nil {
		return err
	}
	var c cluster.Cluster
	switch {
	case total == 0:
		if c, err = a.makeDemo(ctx, p); err != nil {
			return err
		}
	case all[0].Label == demoLabel:
		c = all[0]
	default:
		return nil
	}
	begun := time.Now()
	for c.Status == cluster.Provisioning {
		if err := wait.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		if c, err = a.control.Clusters.View(ctx, p, c.Engine, c.ID); err != nil {
			return err
		}
	}
	if c.Status != cluster.Active {
		return fmt.Errorf("the database %s is %s; `bin/steward event list` says why", c.Label, c.Status)
	}
	return a.printDemo(ctx, p, c, out, time.Since(begun))
}

func (a *App) makeDemo(ctx context.Context, p account.Principal) (cluster.Cluster, error) {
	series := ""
	for _, e := range a.catalog.Engines {
		if e.Engine == cluster.PostgreSQL {
			series = e.Series
		}
	}
	here := slices.IndexFunc(a.catalog.Regions, func(r catalog.Region) bool { return r.Platform.OnHost() })
	if here < 0 {
		return cluster.Cluster{}, errors.New("no region is on this host")
	}
	return a.control.Clusters.Create(ctx, p, cluster.Spec{
		Label: demoLabel, Engine: cluster.PostgreSQL, Series: series, Region: a.catalog.Regions[here].ID, Type: a.catalog.Plans[0].ID,
		Size: 1, SSLConnection: true, AllowList: cluster.AllowList{"127.0.0.0/8"},
	}, nil)
}

func (a *App) printDemo(ctx context.Context, p account.Principal, c cluster.Cluster, out io.Writer, took time.Duration) error {
	credentials, err := a.control.Clusters.Credentials(ctx, p, c.Engine, c.ID)
	if err != nil {
		return err
	}
	pem, err := a.control.Clusters.Certificate(ctx, p, c.Engine, c.ID)
	if err != nil {
		return err
	}
	ca := filepath.Join(a.dir.Data, "demo-ca.crt")
	if err := os.WriteFile(ca, pem, 0o644); err != nil {
		return fmt.Errorf("write CA certificate: %w", err)
	}
	fmt.Fprintf(out, "Demo database (PostgreSQL %s, %s):\n  PGPASSWORD=%s psql 'host=%s port=%d user=%s dbname=defaultdb sslmode=verify-full sslrootcert=%s'\n",
		c.ServerVersion, took.Round(time.Millisecond), credentials.Password, c.Hosts.Primary, c.Port, control.RootUser, ca)
	return nil
}

// adminPrincipal is the first user, acting without a token.
func (a *App) adminPrincipal(ctx context.Context) (account.Principal, error) {
	var admin account.User
	err := a.store.InTx(ctx, func(tx *store.Tx) (err error) {
		admin, err = tx.EnsureAdmin(ctx)
		return err
	})
	return account.Principal{Account: admin.Account, User: admin, Scopes: account.FullScopes()}, err
}
