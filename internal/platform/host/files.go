package host

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"steward/internal/engine"
	"steward/internal/platform/host/files"
)

// makeFolders makes the node's folders; the one around them isn't the cluster's for a scratch
// server, which may still begin while its cluster is removed. What the server may change is its
// user's; configuration is steward's and can be read by the server's group.
func (nr *nodeReconciler) makeFolders() error {
	user := nr.d.user(nr.want.Port)
	for _, dir := range []string{filepath.Dir(nr.dir), nr.dir} {
		if err := files.MakeFolder(dir, 0o711, 0, 0); err != nil {
			return err
		}
	}
	if err := files.MakeFolder(nr.node.Conf, 0o750, 0, user); err != nil {
		return err
	}
	if err := files.MakeFolder(nr.node.TLS, 0o750, 0, user); err != nil {
		return err
	}
	for _, dir := range []string{nr.node.Tmp, nr.node.Log} {
		if err := files.MakeFolder(dir, 0o700, user, user); err != nil {
			return err
		}
	}
	return nil
}

// makeVolatile makes the folders that a reboot takes away, and the one that a
// change of the configuration asks for.
func (nr *nodeReconciler) makeVolatile() error {
	user := nr.d.user(nr.want.Port)
	for _, dir := range []string{nr.d.layout.run, nr.d.layout.keys} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
	}
	for _, dir := range append(nr.peerRuns(), nr.node.Run) {
		if err := files.MakeFolder(dir, 0o700, user, user); err != nil {
			return err
		}
	}
	for _, dir := range []string{nr.node.ArchiveDir, nr.node.Keys} {
		if dir == "" {
			continue
		}
		if err := files.MakeFolder(dir, 0o700, user, user); err != nil {
			return err
		}
	}
	return nil
}

// peerRuns are the folders with the sockets of the cluster's other nodes.
func (nr *nodeReconciler) peerRuns() []string {
	var list []string
	for ordinal := range nr.top.Size {
		if ordinal != nr.ns.ordinal {
			list = append(list, nr.d.layout.runNode(nr.want.ID, ordinal))
		}
	}
	return list
}

// writeFiles writes the configuration, and the keys where there are any.
func (nr *nodeReconciler) writeFiles() error {
	return nr.writeThose(func(engine.File) bool { return true })
}

// writeThose writes the files that are wanted, and what they need.
func (nr *nodeReconciler) writeThose(wanted func(engine.File) bool) error {
	if err := nr.makeVolatile(); err != nil {
		return err
	}
	// The certificate may have been issued since.
	if err := nr.render(); err != nil {
		return err
	}
	for _, f := range nr.files {
		if !wanted(f) {
			continue
		}
		if err := nr.writeFile(f); err != nil {
			return fmt.Errorf("write %s: %w", filepath.Base(f.Path), err)
		}
	}
	return nil
}

// writeFile writes one file into the folder of the node that it belongs to.
// The server's user owns some of these folders and could have put links in
// them: nothing outside the folder is ever reached.
func (nr *nodeReconciler) writeFile(f engine.File) error {
	user := nr.d.user(nr.want.Port)
	for _, place := range []struct {
		dir         string
		mode        fs.FileMode
		owner       int
		withFolders fs.FileMode
	}{
		{nr.node.Conf, 0o640, 0, 0o750},
		{nr.node.TLS, 0o600, user, 0o700},
		{nr.node.Data, 0o600, user, 0o700},
		{nr.node.Tmp, 0o600, user, 0o700},
		{nr.node.Log, 0o600, user, 0o700},
		{nr.node.Run, 0o600, user, 0o700},
		{nr.node.Keys, 0o600, user, 0o700},
	} {
		rel, ok := strings.CutPrefix(f.Path, place.dir+"/")
		if place.dir == "" || !ok {
			continue
		}
		w := files.Writer{Owner: place.owner, Group: user, Mode: place.mode, Folders: place.withFolders}
		return w.Write(place.dir, rel, f.Content, f.Once)
	}
	return fmt.Errorf("%s is in none of the node's folders", f.Path)
}
