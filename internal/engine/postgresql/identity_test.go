package postgresql

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
)

// stopped makes what RegenerateIdentity looks at: a control file with a checksum at
// the given place, and WAL.
func stopped(t *testing.T, crcAt int) string {
	t.Helper()
	dir := t.TempDir()
	for _, sub := range []string{"global", "pg_wal"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	control := make([]byte, 8192)
	copy(control, "template")
	binary.LittleEndian.PutUint32(control[16:], shutDown)
	for i := 20; i < crcAt; i++ {
		control[i] = byte(i)
	}
	binary.LittleEndian.PutUint32(control[crcAt:], crc32.Checksum(control[:crcAt], castagnoli))
	write(t, dir, "global/pg_control", control)
	head := make([]byte, 8192)
	head[2] = 2
	copy(head[24:], "template")
	write(t, dir, "pg_wal/000000010000000000000001", head)
	write(t, dir, "pg_wal/000000010000000000000002", make([]byte, 8192))
	return dir
}

func write(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestRegenerateIdentity(t *testing.T) {
	for _, crcAt := range []int{288, 292, 296} {
		dir := stopped(t, crcAt)
		seen := map[string]bool{"template": true}
		for range 3 {
			if err := (Driver{}).RegenerateIdentity(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
			control := read(t, dir, "global/pg_control")
			id := string(control[:8])
			if seen[id] {
				t.Error("an identifier came twice")
			}
			seen[id] = true
			if control[7]&0x80 != 0 {
				t.Error("the identifier is negative")
			}
			if got := string(read(t, dir, "pg_wal/000000010000000000000001")[24:32]); got != id {
				t.Error("WAL has another identifier than the control file")
			}
			if read(t, dir, "pg_wal/000000010000000000000002")[24] != 0 {
				t.Error("a segment without a header was written to")
			}
			if _, err := readControl(filepath.Join(dir, "global/pg_control")); err != nil {
				t.Error(err)
			}
			if len(control) != 8192 || control[crcAt-33] != byte(crcAt-33) {
				t.Error("more than the identifier and the nonce was written")
			}
		}
	}
}

func TestRegenerateIdentityMendsAHalfDoneOne(t *testing.T) {
	dir := stopped(t, 288)
	if err := stampWAL(filepath.Join(dir, "pg_wal"), [8]byte{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if err := (Driver{}).RegenerateIdentity(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if string(read(t, dir, "pg_wal/000000010000000000000001")[24:32]) != string(read(t, dir, "global/pg_control")[:8]) {
		t.Error("WAL has another identifier than the control file")
	}
}

func TestRegenerateIdentityRefuses(t *testing.T) {
	for name, spoil := range map[string]func(dir string){
		"a running server": func(dir string) { write(t, dir, "postmaster.pid", nil) },
		"a crashed one": func(dir string) {
			control := read(t, dir, "global/pg_control")
			control[16] = 6
			binary.LittleEndian.PutUint32(control[288:], crc32.Checksum(control[:288], castagnoli))
			write(t, dir, "global/pg_control", control)
		},
		"a damaged control file": func(dir string) { write(t, dir, "global/pg_control", make([]byte, 8192)) },
		"a short control file":   func(dir string) { write(t, dir, "global/pg_control", []byte("x")) },
		"no WAL":                 func(dir string) { os.Remove(filepath.Join(dir, "pg_wal/000000010000000000000001")) },
		"an empty segment":       func(dir string) { write(t, dir, "pg_wal/000000010000000000000001", nil) },
	} {
		dir := stopped(t, 288)
		spoil(dir)
		if err := (Driver{}).RegenerateIdentity(t.Context(), dir); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func FuzzReadControl(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 512))
	f.Add(make([]byte, 8192))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "pg_control")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		control, err := readControl(path)
		if err != nil {
			return
		}
		control.stamp(identity{id: [8]byte{1}})
		if err := control.write(); err != nil {
			t.Fatal(err)
		}
		if _, err := readControl(path); err != nil {
			t.Errorf("what was written can't be read: %v", err)
		}
	})
}
