package datadir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"steward/internal/archive"
	"steward/internal/cluster"
	"steward/internal/config"
	"steward/internal/engine"
	"steward/internal/engine/mysql"
	"steward/internal/engine/postgresql"
	"steward/internal/failpoint"
	"steward/internal/gateway"
	"steward/internal/platform/host"
	"steward/internal/seal"
)

// OpenSealer opens the key service of a server's secrets.
func (d Dir) OpenSealer(ctx context.Context, c config.Config) (*seal.Sealer, error) {
	sealer, err := seal.Open(ctx, cmp.Or(c.Seal.URL, d.SealKey()))
	if err != nil {
		return nil, fmt.Errorf("secrets: %w", err)
	}
	return sealer, nil
}

// OpenArchive opens the place where a server's backups are: the one given, else the
// configured one, else a folder of its own.
func (d Dir) OpenArchive(ctx context.Context, c config.Config, place string, log *slog.Logger) (*archive.Archive, error) {
	place, err := bucketURL(cmp.Or(place, c.Backups.URL, d.Backups()))
	if err != nil {
		return nil, err
	}
	opened, err := archive.Open(ctx, archive.Options{URL: place, Logger: log, Timeout: c.Backups.Timeout})
	if err != nil {
		return nil, fmt.Errorf("backups (--backups): %w", err)
	}
	return opened, nil
}

// Continuous reports whether what servers write between backups is archived as well: as is
// configured, else where it outlives the disk that the databases are on.
func (d Dir) Continuous(c config.Config, place string) (bool, error) {
	if c.Backups.Continuous != nil {
		return *c.Backups.Continuous, nil
	}
	place, err := bucketURL(cmp.Or(place, c.Backups.URL, d.Backups()))
	if err != nil {
		return false, err
	}
	bucket, err := url.Parse(place)
	if err != nil {
		return false, fmt.Errorf("backups (--backups): %w", err)
	}
	if bucket.Scheme != "file" {
		return true, nil
	}
	same, err := onOneDevice(bucket.Path, d.Data)
	return !same, err
}

// onOneDevice reports whether two folders are on one file system. Of one that isn't there yet
// it is the one that it will be made in.
func onOneDevice(a, b string) (bool, error) {
	var devices [2]uint64
	for i, folder := range []string{a, b} {
		var info unix.Stat_t
		err := unix.Stat(folder, &info)
		for errors.Is(err, unix.ENOENT) && folder != filepath.Dir(folder) {
			folder = filepath.Dir(folder)
			err = unix.Stat(folder, &info)
		}
		if err != nil {
			return false, fmt.Errorf("look which disk %s is on: %w", folder, err)
		}
		devices[i] = info.Dev
	}
	return devices[0] == devices[1], nil
}

// bucketURL is a folder as a URL; a URL stays what it is.
func bucketURL(place string) (string, error) {
	if strings.Contains(place, "://") {
		return place, nil
	}
	folder, err := filepath.Abs(place)
	if err != nil {
		return "", fmt.Errorf("backups (--backups): %w", err)
	}
	return (&url.URL{Scheme: "file", Path: folder}).String(), nil
}

// GatewayOptions are those of the gateway of this folder.
func (d Dir) GatewayOptions(c config.Config, log *slog.Logger) (gateway.Options, error) {
	ports, err := c.Gateway.PortRange()
	if err != nil {
		return gateway.Options{}, err
	}
	o := gateway.Options{Dir: d.Gateway(), RunDir: d.Run, Ports: ports, Logger: log}
	o.PrimaryAddr, o.SecondaryAddr, err = c.Gateway.Addresses()
	return o, err
}

// Engines are the drivers of all engines.
func Engines(log *slog.Logger) map[cluster.Engine]engine.Driver {
	return map[cluster.Engine]engine.Driver{cluster.PostgreSQL: postgresql.New(), cluster.MySQL: mysql.New(log)}
}

// HostOptions are those of the host platform, but for the gateway and the secrets.
func (d Dir) HostOptions(c config.Config, log *slog.Logger) (host.Options, error) {
	ports, err := c.Gateway.PortRange()
	if err != nil {
		return host.Options{}, err
	}
	o := host.Options{
		DataDir: d.Data, RunDir: d.Run, KeysDir: d.Keys, Engines: Engines(log), EngineFolders: c.Engines.Folders, DiscoverEvery: c.Engines.DiscoverEvery, Now: failpoint.Now, Minute: failpoint.Minute(),
		Ports: ports, Hostnames: c.Gateway.Hostnames, UIDBase: c.Isolation.UIDBase, PoolSize: c.Pool.Size, Logger: log,
		Internet:  c.Isolation.Internet,
		Isolation: host.Isolation{Bubblewrap: c.Isolation.Bubblewrap, Cgroups: c.Isolation.Cgroups},
	}
	o.PrimaryAddress, o.SecondaryAddress, err = c.Gateway.Addresses()
	return o, err
}
