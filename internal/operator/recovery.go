package operator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"steward/internal/archive"
	"steward/internal/cluster"
	"steward/internal/config"
	"steward/internal/datadir"
	"steward/internal/durable"
	"steward/internal/platform/host"
	"steward/internal/recovery"
	"steward/internal/seal"
	"steward/internal/store"
	"steward/internal/wait"
)

// LostServer is what a lost server leaves: its bucket and the key of its secrets.
type LostServer struct {
	Archive *archive.Archive
	Sealer  *seal.Sealer
}

// OpenLostServer opens both; neither is made when it isn't there. Without a key it is
// that of the data folder.
func OpenLostServer(ctx context.Context, data, bucket, key string, c config.Config) (*LostServer, error) {
	p := datadir.Dir{Data: data}
	if key == "" {
		key = c.Seal.URL
	}
	if key == "" {
		key = p.SealKey()
	}
	if err := demand("seal key (--seal-key)", key); err != nil {
		return nil, err
	}
	sealer, err := seal.Open(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("seal key (--seal-key): %w", err)
	}
	a, err := openOldBucket(ctx, p, bucket, c)
	if err != nil {
		return nil, errors.Join(err, sealer.Close())
	}
	return &LostServer{a, sealer}, nil
}

// openOldBucket opens one that must be there.
func openOldBucket(ctx context.Context, p datadir.Dir, bucket string, c config.Config) (*archive.Archive, error) {
	place := bucket
	if u, err := url.Parse(bucket); err == nil && u.Scheme == "file" {
		place = u.Path
	}
	if bucket != "" {
		if err := demand("backups (--backups)", place); err != nil {
			return nil, err
		}
	}
	return p.OpenArchive(ctx, c, bucket, slog.New(slog.DiscardHandler))
}

// demand is nil for a URL, and for a path where something is.
func demand(what, place string) error {
	if strings.Contains(place, "://") {
		return nil
	}
	if _, err := os.Stat(place); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Close lets go of both.
func (l *LostServer) Close() { _ = errors.Join(l.Archive.Close(), l.Sealer.Close()) } // both were only read

// Recoverer lists what the bucket has; it has no store to recover into.
func (l *LostServer) Recoverer() *recovery.Recoverer {
	return recovery.New(recovery.Options{Archive: l.Archive, Sealer: l.Sealer})
}

// find lists what there is; an error when none of it can be recovered.
func (l *LostServer) find(ctx context.Context) ([]recovery.Found, error) {
	all, err := l.Recoverer().List(ctx)
	if err != nil {
		return nil, err
	}
	problem := errors.New("there are no complete backups in the bucket")
	for _, f := range all {
		if f.Problem == nil {
			return all, nil
		}
		problem = fmt.Errorf("database %d (%s): %w", f.Cluster, f.Newest.Database, f.Problem)
	}
	return nil, problem
}

// RecoverOptions are what a Recovery is made of.
type RecoverOptions struct {
	// Data is the new server's folder, Store its store unless that is its own.
	Data, Store string
	// Archive and SealKey are what is left of the lost one.
	Archive, SealKey string
	config.Config
}

// Recovery brings databases of a lost server to this one.
type Recovery struct {
	*recovery.Recoverer
	// Found is all that the bucket has.
	Found  []recovery.Found
	lost   *LostServer
	access *Access
	paths  datadir.Dir
}

// OpenRecovery opens what is left, and the store of the new server.
func OpenRecovery(ctx context.Context, o RecoverOptions) (_ *Recovery, err error) {
	lost, err := OpenLostServer(ctx, o.Data, o.Archive, o.SealKey, o.Config)
	if err != nil {
		return nil, err
	}
	r := &Recovery{lost: lost}
	defer func() {
		if err != nil {
			r.Close(ctx)
		}
	}()
	if r.Found, err = lost.find(ctx); err != nil {
		return nil, err
	}
	if r.paths, err = datadir.Open(o.Data); err != nil {
		return nil, err
	}
	if err := r.inheritKey(o); err != nil {
		return nil, err
	}
	own, err := r.paths.OpenSealer(ctx, o.Config)
	if err != nil {
		return nil, err
	}
	if r.access, err = openAccess(ctx, r.paths, o.Store, own); err != nil {
		return nil, err
	}
	options := recovery.Options{Store: r.access.store, Archive: lost.Archive, Sealer: lost.Sealer, Quotas: o.DefaultQuotas()}
	if err := r.findServers(ctx, o.Config, &options); err != nil {
		return nil, err
	}
	r.Recoverer = recovery.New(options)
	return r, r.spareIDs(ctx)
}

// inheritKey makes the lost server's key that of a data folder that has none:
// then the same key goes on opening what is in the bucket.
func (r *Recovery) inheritKey(o RecoverOptions) error {
	_, err := os.Stat(r.paths.SealKey())
	if !errors.Is(err, fs.ErrNotExist) || o.SealKey == "" || o.Seal.URL != "" || strings.Contains(o.SealKey, "://") {
		return nil
	}
	content, err := os.ReadFile(o.SealKey)
	if err == nil {
		err = durable.WriteFile(r.paths.SealKey(), content)
	}
	if err != nil {
		return fmt.Errorf("take the seal key over: %w", err)
	}
	return nil
}

// findServers fills in what this machine can run.
func (r *Recovery) findServers(ctx context.Context, c config.Config, o *recovery.Options) (err error) {
	if o.Ports, err = c.Gateway.PortRange(); err != nil {
		return err
	}
	options, err := r.paths.HostOptions(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	driver, err := host.New(ctx, options)
	if err != nil {
		return err
	}
	defer driver.Close()
	o.Runs = driver.Runs
	o.Catalog, err = c.Catalog.Load(driver.Engines())
	return err
}

// spareIDs keeps the ids of what isn't recovered now from being given out.
func (r *Recovery) spareIDs(ctx context.Context) error {
	stored, err := r.lost.Archive.List(ctx)
	if err != nil {
		return err
	}
	return recovery.ReserveIDs(ctx, r.access.store, stored)
}

// Served reports whether a server of the data folder runs, which does the work.
func (r *Recovery) Served() bool {
	_, served := datadir.ServerPID(r.paths.Data)
	return served
}

// Await waits until a database's data is back, or won't come; then why is the
// reason. tell is told how far it is.
func (r *Recovery) Await(ctx context.Context, c cluster.Cluster, tell func(percent int, message string)) (_ cluster.Cluster, why string, err error) {
	for {
		going, err := r.access.store.UnfinishedOperations(ctx, c.ID)
		if err != nil {
			return c, "", err
		}
		for _, o := range going {
			tell(o.Percent, o.Message)
		}
		if c, err = r.access.store.ClusterForWork(ctx, c.ID); err != nil {
			return c, "", err
		}
		if c.Status != cluster.Restoring {
			why, err := r.lastFailure(ctx, c)
			return c, why, err
		}
		if wait.Sleep(ctx, 200*time.Millisecond) != nil {
			return c, "", ctx.Err()
		}
	}
}

// lastFailure is what the last operation says of a database that has failed.
func (r *Recovery) lastFailure(ctx context.Context, c cluster.Cluster) (string, error) {
	if c.Status != cluster.Failed {
		return "", nil
	}
	all, _, err := r.access.store.Operations(ctx, store.Viewer{Account: c.Account}, store.ListQuery{})
	for _, o := range all {
		if o.Cluster == c.ID && o.Message != "" {
			return o.Message, nil
		}
	}
	return "", err
}

// Close closes everything.
func (r *Recovery) Close(ctx context.Context) {
	if r.access != nil {
		r.access.Close(ctx)
	}
	r.lost.Close()
}
