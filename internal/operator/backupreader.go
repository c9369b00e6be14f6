package operator

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/config"
	"steward/internal/datadir"
	"steward/internal/fault"
	"steward/internal/platform"
	"steward/internal/recovery"
)

// BackupReaderOptions say where backups and what opens them are found.
type BackupReaderOptions struct {
	// Data is the server's folder, Store its store unless that is its own.
	Data, Store string
	// Archive is the bucket, unless it is the configured one.
	Archive string
	// SealKey and KeyFile do without the server: with its seal key the secrets
	// are those beside the backups; KeyFile is a database's backup key itself.
	SealKey, KeyFile string
	config.Config
}

// BackupReader is what an operator opens backups with.
type BackupReader struct {
	archive *archive.Archive
	// names finds the databases, secret what opens their backups.
	names  func(ctx context.Context) (map[cluster.ID]string, error)
	secret func(ctx context.Context, id cluster.ID, name platform.SecretName) ([]byte, error)
	undo   []func()
}

// OpenBackupReader opens the bucket, and the store, the seal key or the key file.
func OpenBackupReader(ctx context.Context, o BackupReaderOptions) (_ *BackupReader, err error) {
	r := &BackupReader{}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	switch {
	case o.KeyFile != "":
		err = r.openKeyFile(ctx, o)
	case o.SealKey != "":
		err = r.openLostServer(ctx, o)
	default:
		err = r.openStore(ctx, o)
	}
	return r, err
}

// Close lets go of everything.
func (r *BackupReader) Close() {
	for _, undo := range slices.Backward(r.undo) {
		undo()
	}
}

func (r *BackupReader) openKeyFile(ctx context.Context, o BackupReaderOptions) error {
	content, err := os.ReadFile(o.KeyFile)
	if err != nil {
		return fmt.Errorf("key file: %w", err)
	}
	key := identityIn(content)
	if key == nil {
		return fmt.Errorf("key file %s: no line of it is an age identity (AGE-SECRET-KEY-1…)", o.KeyFile)
	}
	r.archive, err = openOldBucket(ctx, datadir.Dir{Data: o.Data}, o.Archive, o.Config)
	if err != nil {
		return err
	}
	r.undo = append(r.undo, func() { _ = r.archive.Close() }) // it was only read
	r.names = r.namesInBucket
	r.secret = func(_ context.Context, _ cluster.ID, name platform.SecretName) ([]byte, error) {
		if name != platform.BackupKey {
			return nil, fmt.Errorf("data that is encrypted at rest takes the server's seal key, too: use --seal-key")
		}
		return key, nil
	}
	return nil
}

// identityIn is the first line of a key file that is a key: age allows comments.
func identityIn(content []byte) []byte {
	for line := range bytes.Lines(content) {
		if archive.IsKey(line) {
			return bytes.TrimSpace(line)
		}
	}
	return nil
}

func (r *BackupReader) openLostServer(ctx context.Context, o BackupReaderOptions) error {
	lost, err := OpenLostServer(ctx, o.Data, o.Archive, o.SealKey, o.Config)
	if err != nil {
		return err
	}
	r.archive, r.undo = lost.Archive, append(r.undo, lost.Close)
	r.names = r.namesInBucket
	r.secret = func(ctx context.Context, id cluster.ID, name platform.SecretName) ([]byte, error) {
		record, err := recovery.Read(ctx, lost.Archive, lost.Sealer, id)
		return record.Secrets[name], err
	}
	return nil
}

func (r *BackupReader) openStore(ctx context.Context, o BackupReaderOptions) error {
	p, err := usedPaths(o.Data, o.Config)
	if err != nil {
		return err
	}
	if r.archive, err = p.OpenArchive(ctx, o.Config, o.Archive, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	r.undo = append(r.undo, func() { _ = r.archive.Close() }) // it was only read
	access, err := openSealedAccess(ctx, p, o.Store, o.Config)
	if err != nil {
		return err
	}
	r.undo = append(r.undo, func() { access.Close(ctx) })
	r.secret = access.store.Secret
	r.names = func(ctx context.Context) (map[cluster.ID]string, error) {
		all, err := access.store.ClustersForWork(ctx)
		names := map[cluster.ID]string{}
		for _, c := range all {
			names[c.ID] = c.Label
		}
		return names, err
	}
	return nil
}

// namesInBucket are the databases as their newest backups name them.
func (r *BackupReader) namesInBucket(ctx context.Context) (map[cluster.ID]string, error) {
	all, err := r.archive.List(ctx)
	newest := map[cluster.ID]backup.ID{}
	for _, s := range all {
		if s.Complete {
			newest[s.Cluster] = max(newest[s.Cluster], s.Backup)
		}
	}
	names := map[cluster.ID]string{}
	for c, b := range newest {
		if m, errManifest := r.archive.Manifest(ctx, c, b); errManifest == nil {
			names[c] = m.Database
		} else {
			names[c] = "" // by its id it can be named all the same
		}
	}
	return names, err
}

// database finds one by id or label.
func (r *BackupReader) database(ctx context.Context, name string) (cluster.ID, string, error) {
	names, err := r.names(ctx)
	if err != nil {
		return 0, "", fmt.Errorf("list databases: %w", err)
	}
	if id, err := strconv.ParseInt(name, 10, 64); err == nil {
		if label, ok := names[cluster.ID(id)]; ok {
			return cluster.ID(id), cmp.Or(label, name), nil
		}
	}
	var found []cluster.ID
	for id, label := range names {
		if label == name {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return 0, "", fmt.Errorf("there is no database %s", name)
	case 1:
		return found[0], name, nil
	}
	slices.Sort(found)
	return 0, "", fmt.Errorf("several databases are called %s: use an id of %v", name, found)
}

// backup finds one of a database by id or label.
func (r *BackupReader) backup(ctx context.Context, of cluster.ID, name string) (archive.Manifest, error) {
	all, err := r.archive.List(ctx)
	if err != nil {
		return archive.Manifest{}, err
	}
	all = slices.DeleteFunc(all, func(s archive.Stored) bool { return s.Cluster != of || !s.Complete })
	slices.SortFunc(all, func(a, b archive.Stored) int { return cmp.Compare(b.Backup, a.Backup) })
	for _, s := range all {
		if strconv.FormatInt(int64(s.Backup), 10) == name {
			return r.archive.Manifest(ctx, of, s.Backup)
		}
	}
	for _, s := range all {
		m, err := r.archive.Manifest(ctx, of, s.Backup)
		if err == nil && m.Label == name {
			return m, nil
		}
	}
	return archive.Manifest{}, fmt.Errorf("there is no complete backup %s of database %d in the archive", name, of)
}

// Key is what a database's backups are encrypted with: the text of an age identity.
func (r *BackupReader) Key(ctx context.Context, database string) (string, error) {
	id, _, err := r.database(ctx, database)
	if err != nil {
		return "", err
	}
	key, err := r.secret(ctx, id, platform.BackupKey)
	if fault.IsKind(err, fault.NotFound) || err == nil && !archive.IsKey(key) {
		return "", fmt.Errorf("database %d has no backup key yet: it gets one with its first backup", id)
	}
	if err != nil {
		return "", fmt.Errorf("backup key of database %d: %w", id, err)
	}
	return string(bytes.TrimSpace(key)), nil
}
