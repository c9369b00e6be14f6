package host

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/pgbouncer"
	"steward/internal/platform/host/files"
)

// consolePassword is that of our own account in a pooler's console. It follows from what a failover knows by heart, and is nothing
// that a server would take.
func consolePassword(adminPassword string) string {
	mac := hmac.New(sha256.New, []byte(adminPassword))
	mac.Write([]byte("console of connection pools"))
	return hex.EncodeToString(mac.Sum(nil))
}

// writePooler writes a pooler's files but for the users', as far as they are others, and returns a digest of all.
func (d *Driver) writePooler(id cluster.ID, l *poolerLook) (digest string, err error) {
	user := d.user(l.rec.Port)
	if err := d.makePoolerFolders(l, id, user); err != nil {
		return "", err
	}
	all := l.conf.Files()
	// The certificate is the primary's, which covers every address of the cluster and is renewed with it.
	for _, name := range []string{engine.TLSCA, engine.TLSKey, engine.TLSCert} {
		content, err := os.ReadFile(filepath.Join(l.primary.TLS, name))
		if err != nil {
			return "", fmt.Errorf("read the primary's certificate: %w", err)
		}
		all = append(all, engine.File{Path: filepath.Join(l.conf.TLS, name), Content: content})
	}
	sum := sha256.New()
	for _, f := range all {
		fmt.Fprintf(sum, "%s %d\n", f.Path, len(f.Content))
		sum.Write(f.Content)
		w := files.Writer{Owner: 0, Group: user, Mode: 0o640}
		if os.Geteuid() != 0 {
			w.Mode = 0o600
		}
		if err := w.Write(filepath.Dir(f.Path), filepath.Base(f.Path), f.Content, false); err != nil {
			return "", fmt.Errorf("write %s: %w", filepath.Base(f.Path), err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// makePoolerFolders makes them; steward's are read by the pooler's group.
func (d *Driver) makePoolerFolders(l *poolerLook, id cluster.ID, user int) error {
	for _, dir := range []string{d.layout.run, d.layout.keys} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
	}
	if err := files.MakeFolder(d.layout.pooler(id), 0o711, 0, 0); err != nil {
		return err
	}
	for _, dir := range []string{l.conf.Conf, l.conf.TLS, l.conf.Keys} {
		if err := files.MakeFolder(dir, 0o750, 0, user); err != nil {
			return err
		}
	}
	return files.MakeFolder(l.conf.Run, 0o700, user, user)
}

// putUsers replaces the file that says who may log in. It is in memory alone.
func (d *Driver) putUsers(l *poolerLook, verifiers map[string]string) error {
	console, err := l.eng.Verifier(l.secret)
	if err != nil {
		return err
	}
	user := d.user(l.rec.Port)
	w := files.Writer{Owner: 0, Group: user, Mode: 0o640}
	if err := w.Write(l.conf.Keys, pgbouncer.UsersFile, pgbouncer.Users(verifiers, console), false); err != nil {
		return fmt.Errorf("write who may log in: %w", err)
	}
	return nil
}
