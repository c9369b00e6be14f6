package enginetest

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"steward/internal/engine"
)

// clearText is found without encryption: else the case of encryption would prove nothing.
func clearText(t *testing.T, s *Server) {
	if len(s.filesWithMarker(t)) == 0 {
		t.Error("the search finds nothing on a server without encryption")
	}
}

// encryption writes a marker and looks for it in every file.
func encryption(t *testing.T, b *Bench) {
	if why := b.Driver.EncryptionMissing(b.Installation); why != "" {
		if !strings.Contains(why, " ") || !strings.HasSuffix(why, ".") {
			t.Errorf("the reason isn't a sentence for customers: %q", why)
		}
		return
	}
	keys, err := os.MkdirTemp("/dev/shm", "enginetest")
	must(t, err, "make key folder")
	s := b.Started(t, func(n *engine.Node) {
		n.Encrypted, n.Keys, n.AtRestKey = true, keys, make([]byte, 32)
		rand.Read(n.AtRestKey)
	})
	if found := s.filesWithMarker(t); len(found) > 0 {
		t.Errorf("clear text in %v", found)
	}
	content, err := b.Driver.KeyringContent(s.Node)
	must(t, err, "keyring content")
	s.Node.Keyring = content
	s.Stop(t)
	// A reboot empties memory: everything must come back from what was handed out.
	must(t, os.RemoveAll(keys), "remove keys")
	must(t, os.Mkdir(keys, 0o700), "make key folder")
	s.WriteFiles(t)
	s.Start(t)
	s.Bootstrap(t)
	if got := s.Text(t, "SELECT count(*) FROM marked"); got == "0" {
		t.Error("the rows are gone")
	}
}

// filesWithMarker writes rows that hold a marker and says which files below the
// node's folders, keys aside, that hold it in the clear after a clean stop.
func (s *Server) filesWithMarker(t *testing.T) []string {
	t.Helper()
	random := make([]byte, 8)
	rand.Read(random)
	marker := "marker-" + hex.EncodeToString(random)
	s.Exec(t, "CREATE TABLE marked (v int PRIMARY KEY, secret varchar(200))",
		"INSERT INTO marked VALUES (1, '"+marker+"')", "INSERT INTO marked VALUES (2, '"+strings.Repeat(marker, 5)+"')",
		"UPDATE marked SET secret = '"+marker+marker+"' WHERE v = 1", "CREATE INDEX marked_secret ON marked (secret)")
	s.Restart(t)
	return FilesWith(t, s.base, marker)
}
