package archive

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/platform"
)

// version of the format. Another one is refused, not guessed at.
const version = 1

// Manifest tells of a backup all that restoring it takes, besides its key.
type Manifest struct {
	Version int        `json:"version"`
	Cluster cluster.ID `json:"cluster"`
	Backup  backup.ID  `json:"backup"`
	// Database is the database's label, Label the backup's.
	Database string         `json:"database,omitempty"`
	Label    string         `json:"label"`
	Type     backup.Type    `json:"type"`
	Engine   cluster.Engine `json:"engine"`
	Series   string         `json:"series"`
	// Encrypted reports whether the data is so at rest: it takes another key, too.
	Encrypted bool          `json:"encrypted,omitempty"`
	Copy      platform.Copy `json:"copy"`
	Created   time.Time     `json:"created"`
	// Bytes are those of the data as the server had it, StoredBytes those of the
	// object, which SHA256 is the checksum of. The data has none of its own: the
	// encryption proves what comes out, and each of its frames has a checksum.
	Bytes       int64  `json:"bytes"`
	StoredBytes int64  `json:"stored_bytes"`
	SHA256      string `json:"sha256"`
}

// Manifest reads the manifest of a backup.
func (a *Archive) Manifest(ctx context.Context, c cluster.ID, b backup.ID) (Manifest, error) {
	content, err := a.read(ctx, prefixOf(c, b)+manifestName)
	if err != nil {
		return Manifest{}, fmt.Errorf("read manifest of backup %d of cluster %d: %w", b, c, err)
	}
	m, err := parseManifest(content)
	if err == nil && (m.Cluster != c || m.Backup != b) {
		err = fmt.Errorf("%w: the manifest is that of backup %d of cluster %d", ErrDamaged, m.Backup, m.Cluster)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("manifest of backup %d of cluster %d: %w", b, c, err)
	}
	return m, nil
}

func parseManifest(content []byte) (Manifest, error) {
	const most = 1 << 16
	if len(content) > most {
		return Manifest{}, fmt.Errorf("%w: a manifest of %d bytes", ErrDamaged, len(content))
	}
	var m Manifest
	if err := json.Unmarshal(content, &m); err != nil {
		return m, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if m.Version != version {
		return m, fmt.Errorf("format %d isn't known here: use the steward that made it, or a newer one", m.Version)
	}
	if raw, err := hex.DecodeString(m.SHA256); err != nil || len(raw) != 32 {
		return m, fmt.Errorf("%w: %q is no checksum", ErrDamaged, m.SHA256)
	}
	if m.Bytes < 0 || m.StoredBytes <= 0 {
		return m, errors.Join(ErrDamaged, fmt.Errorf("sizes %d and %d", m.Bytes, m.StoredBytes))
	}
	return m, nil
}

func (a *Archive) writeManifest(ctx context.Context, m Manifest) error {
	content, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	if err := a.write(ctx, prefixOf(m.Cluster, m.Backup)+manifestName, append(content, '\n')); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}

// write replaces a small object; it is kept when write returns.
func (a *Archive) write(ctx context.Context, key string, content []byte) error {
	if err := a.step(ctx, func(ctx context.Context) error { return a.bucket.WriteAll(ctx, key, content, nil) }); err != nil {
		return err
	}
	return a.settle(key)
}
