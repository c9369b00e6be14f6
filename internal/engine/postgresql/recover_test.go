package postgresql

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/catalog"
	"steward/internal/engine"
)

// runScript runs one of ours as the server does, after writing it where it says.
func runScript(t *testing.T, n engine.Node, name string, args ...string) error {
	t.Helper()
	for _, f := range scripts(n) {
		if filepath.Base(f.Path) != name {
			continue
		}
		if err := os.WriteFile(f.Path, f.Content, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{f.Path}, args...)...)
		cmd.Env = environment()
		out, err := cmd.CombinedOutput()
		if len(out) > 0 {
			t.Logf("%s", out)
		}
		return err
	}
	t.Fatalf("no script %s", name)
	return nil
}

// awkward is a node whose folders have a space, a quote and a percent sign.
func awkward(t *testing.T) engine.Node {
	t.Helper()
	dir := filepath.Join(t.TempDir(), `it's 100% odd`)
	n := engine.Node{
		Conf: filepath.Join(dir, "conf"), Data: filepath.Join(dir, "data"), ArchiveDir: filepath.Join(dir, "archive"),
		Recovery: &engine.Recovery{RestoreDir: filepath.Join(dir, "restore")}, Plan: catalog.Plan{DiskMB: 640},
	}
	for _, d := range []string{n.Conf, n.Data, n.ArchiveDir, n.Recovery.RestoreDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func waiting(t *testing.T, n engine.Node) []string {
	t.Helper()
	entries, err := os.ReadDir(n.ArchiveDir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestArchiveScript: files come whole, again after a crash, and are dropped with
// a mark when too many wait, but for histories.
func TestArchiveScript(t *testing.T) {
	t.Parallel()
	n := awkward(t)
	segment := filepath.Join(n.Data, "segment")
	if err := os.WriteFile(segment, []byte("written"), 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{"000000010000000000000001", "000000010000000000000002", "000000010000000000000003", "000000010000000000000004"}
	for _, name := range append(names[:1:1], names...) { // the first one twice
		if err := runScript(t, n, archiveScript, segment, name); err != nil {
			t.Fatal(err)
		}
	}
	if got := waiting(t, n); !slices.Equal(got, names) {
		t.Errorf("waiting: %v", got)
	}
	if content, err := os.ReadFile(filepath.Join(n.ArchiveDir, names[0])); err != nil || string(content) != "written" {
		t.Errorf("%q, %v", content, err)
	}
	for _, name := range []string{"000000010000000000000005", "00000002.history"} {
		if err := runScript(t, n, archiveScript, segment, name); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := waiting(t, n), append([]string{archiveGap}, append(names, "00000002.history")...); !slices.Equal(got, want) {
		t.Errorf("waiting: %v, want %v", got, want)
	}
	if err := os.Rename(filepath.Join(n.ArchiveDir, archiveGap), filepath.Join(n.ArchiveDir, archiveGapReported)); err != nil {
		t.Fatal(err)
	}
	if err := runScript(t, n, archiveScript, segment, "000000010000000000000006"); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(waiting(t, n), archiveGap) {
		t.Error("the overflow is marked again that was told of")
	}
	if err := runScript(t, n, archiveScript, filepath.Join(n.Data, "none"), "00000003.history"); err == nil {
		t.Error("what isn't there was archived")
	}
	if err := os.RemoveAll(n.ArchiveDir); err != nil {
		t.Fatal(err)
	}
	if err := runScript(t, n, archiveScript, segment, names[0]); err == nil {
		t.Error("archived without an archive directory")
	}
}

func TestFetchScript(t *testing.T) {
	t.Parallel()
	n := awkward(t)
	to := filepath.Join(n.Data, "RECOVERYXLOG")
	answer := func(name, suffix string) {
		for {
			if os.Remove(filepath.Join(n.Recovery.RestoreDir, name+restoreWanted)) == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if err := os.WriteFile(filepath.Join(n.Recovery.RestoreDir, name+suffix), []byte("archived"), 0o600); err != nil {
			t.Error(err)
		}
	}
	go answer("000000010000000000000001", "")
	if err := runScript(t, n, fetchScript, "000000010000000000000001", to); err != nil {
		t.Error(err)
	}
	if content, err := os.ReadFile(to); err != nil || string(content) != "archived" {
		t.Errorf("%q, %v", content, err)
	}
	go answer("00000002.history", restoreMissing)
	if err := runScript(t, n, fetchScript, "00000002.history", to); err == nil {
		t.Error("what isn't there was fetched")
	}
	if left, err := os.ReadDir(n.Recovery.RestoreDir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestArchiveSettings(t *testing.T) {
	t.Parallel()
	n := awkward(t)
	n.Recovery.Until = time.Date(2026, 1, 31, 18, 4, 5, 0, time.UTC)
	text := string(renderSettings(append(archiveSettings(n), recoverySettings(n)...), 15))
	for _, want := range []string{"archive_mode = 'always'", "archive_timeout = '60s'", "100%% odd", `"%p" "%f"`, "recovery_target_time = '2026-01-31 18:04:05+00'", "hot_standby = 'off'"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	n.Recovery.Until = time.Time{}
	if text := string(renderSettings(recoverySettings(n), 15)); strings.Contains(text, "target_time =") {
		t.Errorf("a target in %s", text)
	}
	n.ArchiveDir, n.Recovery = "", nil
	if len(recoverySettings(n))+len(scripts(n)) > 0 {
		t.Error("settings of what isn't wanted")
	}
	if text := string(renderSettings(archiveSettings(n), 15)); strings.Contains(text, "archive_mode") || !strings.Contains(text, "archive_command = '/bin/true'") {
		t.Errorf("a server that archived until now would keep all its WAL with %s", text)
	}
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	head := make([]byte, archiveHead)
	head[2] = 2
	copy(head[24:], []byte{1, 2, 3, 4, 5, 6, 7, 0xa8})
	archiveID, keep, err := identify(t.Context(), "000000010000000000000001", head, "")
	if err != nil || !keep || archiveID != "01020304050607a8" {
		t.Errorf("%q %v %v", archiveID, keep, err)
	}
	if _, _, err := identify(t.Context(), "000000010000000000000001", head[:8], ""); err == nil {
		t.Error("a file that is no segment is taken for one")
	}
	for _, name := range []string{"000000010000000000000002.00000028.backup", "000000010000000000000002.partial"} {
		if _, keep, err := identify(t.Context(), name, head, ""); keep || err != nil {
			t.Errorf("%s: %v %v", name, keep, err)
		}
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"000000010000000000000002", "000000010000000000000001", true},
		{"000000010000000100000000", "0000000200000000000000FF", true},
		{"000000020000000000000001", "000000010000000000000001", false},
		{"00000002.history", "000000010000000000000001", false},
	} {
		if got := beyond(c.a, c.b); got != c.want {
			t.Errorf("%s beyond %s: %v", c.a, c.b, got)
		}
	}
}

func TestPrunable(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"000000010000000000000001": true, "00000002.history": false} {
		if got := (Driver{}).Prunable(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
