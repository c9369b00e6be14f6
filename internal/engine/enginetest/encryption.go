package enginetest

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"steward/internal/engine"
)

// encryption has cases of one server that is encrypted, and archived where the suite tries that.
func encryption(t *testing.T, b *Bench) {
	if why := b.Driver.EncryptionMissing(b.Installation); why != "" {
		if !strings.Contains(why, " ") || !strings.HasSuffix(why, ".") {
			t.Errorf("the reason isn't a sentence for customers: %q", why)
		}
		return
	}
	keys, err := os.MkdirTemp("/dev/shm", "enginetest")
	must(t, err, "make key folder")
	parts := []part[*Server]{{"nothing is in the clear", nothingClear}}
	if b.long() { // others have backups without encryption
		parts = append(parts, part[*Server]{"backup under writes", backupUnderWrites})
	}
	if b.Options.NewUser != nil && (b.whole() || b.long()) {
		parts = append(parts, part[*Server]{"point in time", pointInTimeEncrypted})
	}
	inTurn(func(t *testing.T, b *Bench) *Server {
		return b.Started(t, archiving, func(n *engine.Node) {
			n.Encrypted, n.Keys, n.AtRestKey = true, keys, make([]byte, 32)
			rand.Read(n.AtRestKey)
		})
	}, parts)(t, b)
}

// nothingClear writes a marker and looks for it in every file.
func nothingClear(t *testing.T, s *Server) {
	marker := s.mark(t)
	s.Stop(t)
	if found := FilesWith(t, s.base, marker); len(found) > 0 {
		t.Errorf("clear text in %v", found)
	}
	content, err := s.Bench.Driver.KeyringContent(s.Node)
	must(t, err, "keyring content")
	s.Node.Keyring = content
	// A reboot empties memory: everything must come back from what was handed out.
	must(t, os.RemoveAll(s.Node.Keys), "remove keys")
	must(t, os.Mkdir(s.Node.Keys, 0o700), "make key folder")
	s.WriteFiles(t)
	s.Start(t)
	s.Bootstrap(t)
	if got := s.Text(t, "SELECT count(*) FROM marked"); got == "0" {
		t.Error("the rows are gone")
	}
}

// mark writes rows that hold a marker, which is text like no other.
func (s *Server) mark(t *testing.T) (marker string) {
	t.Helper()
	random := make([]byte, 8)
	rand.Read(random)
	marker = "marker-" + hex.EncodeToString(random)
	s.Exec(t, "CREATE TABLE marked (v int PRIMARY KEY, secret varchar(200))",
		"INSERT INTO marked VALUES (1, '"+marker+"')", "INSERT INTO marked VALUES (2, '"+strings.Repeat(marker, 5)+"')",
		"UPDATE marked SET secret = '"+marker+marker+"' WHERE v = 1", "CREATE INDEX marked_secret ON marked (secret)")
	return marker
}
