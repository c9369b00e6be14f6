package gateway

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write golden files anew")

// TestRender compares what is rendered with golden files: the first file of each
// is the input, the others are the output.
func TestRender(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var input struct {
				config
				Routes []Route
			}
			if err := json.Unmarshal(archive.Files[0].Data, &input); err != nil {
				t.Fatal(err)
			}
			c := input.config
			c.Routes = map[int]Route{}
			for _, r := range input.Routes {
				if err := r.Validate(); err != nil {
					t.Fatal(err)
				}
				c.Routes[r.Port] = r
			}
			files := render(c)
			checkWithHAProxy(t, files)
			got := txtar.Archive{Comment: archive.Comment, Files: archive.Files[:1:1]}
			for _, name := range slices.Sorted(maps.Keys(files)) {
				got.Files = append(got.Files, txtar.File{Name: name, Data: []byte(files[name])})
			}
			if *update {
				if err := os.WriteFile(path, txtar.Format(&got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want, have := string(txtar.Format(archive)), string(txtar.Format(&got)); want != have {
				t.Errorf("rendered differs (go test -run TestRender -update writes it anew); got:\n%s", have)
			}
		})
	}
}

// checkWithHAProxy lets HAProxy judge the files, where there is one.
func checkWithHAProxy(t *testing.T, files map[string]string) {
	t.Helper()
	binary, err := FindBinary()
	if err != nil {
		return
	}
	dir := t.TempDir()
	for _, sub := range []string{aclDir, jailDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), binary, "-c", "-C", dir, "-f", configName).CombinedOutput()
	if err != nil || strings.Contains(string(out), "WARNING") {
		t.Errorf("haproxy -c: %v\n%s", err, out)
	}
}

func addresses() *rapid.Generator[netip.Addr] {
	return rapid.Custom(func(t *rapid.T) netip.Addr {
		if rapid.Bool().Draw(t, "v4") {
			return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "bytes")))
		}
		b := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes")
		if rapid.Bool().Draw(t, "mapped") {
			copy(b, []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff})
		}
		return netip.AddrFrom16([16]byte(b)).WithZone(rapid.SampledFrom([]string{"", "eth0", "a\nb"}).Draw(t, "zone"))
	})
}

func prefixes() *rapid.Generator[netip.Prefix] {
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		a := addresses().Draw(t, "address")
		return netip.PrefixFrom(a, rapid.IntRange(0, a.BitLen()).Draw(t, "bits"))
	})
}

func servers() *rapid.Generator[netip.AddrPort] {
	return rapid.Custom(func(t *rapid.T) netip.AddrPort {
		return netip.AddrPortFrom(addresses().Draw(t, "address"), rapid.Uint16().Draw(t, "port"))
	})
}

func routes() *rapid.Generator[Route] {
	return rapid.Custom(func(t *rapid.T) Route {
		r := Route{
			Port:  rapid.IntRange(1, 65535).Draw(t, "port"),
			Allow: rapid.SliceOfN(prefixes(), 0, 20).Draw(t, "allow"),
			Reads: rapid.SliceOfN(servers(), 0, readServers).Draw(t, "reads"),
		}
		if rapid.Bool().Draw(t, "has primary") {
			r.Primary = servers().Draw(t, "primary")
		}
		return r
	})
}

// TestNothingCanBeInjected renders whatever passes validation and finds only
// the lines that belong there.
func TestNothingCanBeInjected(t *testing.T) {
	t.Parallel()
	blank := strings.Count(config{Primary: local(1), Secondary: local(2), Ports: []int{1}}.main(""), "\n")
	rapid.Check(t, func(t *rapid.T) {
		r := routes().Draw(t, "route")
		if r.Validate() != nil {
			return
		}
		c := config{
			Primary: local(1), Secondary: netip.IPv6Loopback(), Ports: []int{r.Port},
			Routes: map[int]Route{r.Port: r},
		}
		files := render(c)
		if lines := strings.Count(files[configName], "\n"); lines != blank {
			t.Fatalf("%d lines instead of %d:\n%s", lines, blank, files[configName])
		}
		for _, f := range c.families() {
			for line := range strings.Lines(files[aclName(r.Port, f)]) {
				p, err := netip.ParsePrefix(strings.TrimSuffix(line, "\n"))
				if err != nil || p != p.Masked() || familyOf(p.Addr()) != f || p.Addr().Is4In6() {
					t.Fatalf("list of family %d has %q: %v", f, line, err)
				}
			}
		}
	})
}

// TestListsAgreeWithSessions: HAProxy lets in whom allows would keep.
func TestListsAgreeWithSessions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := routes().Draw(t, "route")
		source := addresses().Draw(t, "source")
		if len(r.Allow) > 0 && rapid.Bool().Draw(t, "near") {
			source = r.Allow[0].Addr()
		}
		source = source.Unmap().WithZone("")
		listed := slices.ContainsFunc(r.patterns(familyOf(source)), func(p string) bool {
			return netip.MustParsePrefix(p).Contains(source)
		})
		if got := r.Allows(source); got != listed {
			t.Fatalf("%v: allows(%s) is %v, but on the list: %v", r.Allow, source, got, listed)
		}
	})
}

func local(last byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, last}) }

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		allow  []string
		v4, v6 []string
	}{
		{allow: nil},
		{allow: []string{"10.0.0.1/32", "10.0.0.1/32", "192.168.7.9/16"}, v4: []string{"10.0.0.1/32", "192.168.0.0/16"}},
		{allow: []string{"0.0.0.0/0"}, v4: []string{"0.0.0.0/0"}, v6: []string{"::/0"}},
		{allow: []string{"::/0"}, v6: []string{"::/0"}},
		{allow: []string{"2001:db8::1/64", "::ffff:10.1.2.3/104"}, v4: []string{"10.0.0.0/8"}, v6: []string{"2001:db8::/64"}},
	} {
		r := Route{}
		for _, p := range c.allow {
			r.Allow = append(r.Allow, netip.MustParsePrefix(p))
		}
		if v4, v6 := r.patterns(4), r.patterns(6); !slices.Equal(v4, c.v4) || !slices.Equal(v6, c.v6) {
			t.Errorf("%v: got %v and %v, want %v and %v", c.allow, v4, v6, c.v4, c.v6)
		}
	}
}

func TestFingerprintChangesWithWhatIsNotRuntime(t *testing.T) {
	t.Parallel()
	base := config{Primary: local(1), Secondary: local(2), MaxConn: 100, Ports: []int{1, 2}, Socket: "/x"}
	same := base
	same.Ports, same.Socket, same.Routes = []int{7}, "/y", map[int]Route{7: {Port: 7, Primary: netip.MustParseAddrPort("127.0.0.9:1")}}
	if base.fingerprint() != same.fingerprint() {
		t.Error("ports, socket or routes change the fingerprint")
	}
	for name, change := range map[string]func(*config){
		"address":     func(c *config) { c.Secondary = local(3) },
		"connections": func(c *config) { c.MaxConn++ },
		"user":        func(c *config) { c.User = 5 },
	} {
		other := base
		change(&other)
		if base.fingerprint() == other.fingerprint() {
			t.Errorf("a changed %s doesn't change the fingerprint", name)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good := netip.MustParseAddrPort("127.0.77.1:21000")
	for name, c := range map[string]struct {
		route Route
		valid bool
	}{
		"blank":            {Route{Port: 1}, true},
		"servers":          {Route{Port: 1, Primary: good, Reads: []netip.AddrPort{good, good, good}}, true},
		"no port":          {Route{}, false},
		"too many servers": {Route{Port: 1, Reads: []netip.AddrPort{good, good, good, good}}, false},
		"zero range":       {Route{Port: 1, Allow: []netip.Prefix{{}}}, false},
		"zero server":      {Route{Port: 1, Reads: []netip.AddrPort{{}}}, false},
		"server port 0":    {Route{Port: 1, Primary: netip.MustParseAddrPort("127.0.0.1:0")}, false},
		"server zone":      {Route{Port: 1, Primary: netip.MustParseAddrPort("[fe80::1%a]:5")}, false},
		"any server":       {Route{Port: 1, Primary: netip.MustParseAddrPort("0.0.0.0:5")}, false},
	} {
		if err := c.route.Validate(); (err == nil) != c.valid {
			t.Errorf("%s: %v, want valid: %v", name, err, c.valid)
		}
	}
}

func TestGrowSlots(t *testing.T) {
	t.Parallel()
	used := func(n int) func(int) bool { return func(port int) bool { return port < 1000+n } }
	for _, c := range []struct{ total, slots, used, want int }{
		{256, 0, 0, 32},
		{256, 32, 0, 32},
		{256, 32, 24, 32},
		{256, 32, 25, 64},
		{256, 0, 25, 64},
		{256, 0, 100, 128},
		{256, 64, 3, 64},
		{10, 0, 0, 10},
		{40, 32, 30, 40},
		{256, 256, 256, 256},
		{1, 0, 1, 1},
	} {
		if got := growSlots(1000, c.total, c.slots, used(c.used)); got != c.want {
			t.Errorf("%d of %d ports, %d used: %d slots, want %d", c.slots, c.total, c.used, got, c.want)
		}
	}
	if got := fmt.Sprint(wantPorts(1000, 3, map[int]Route{1001: {}, 5000: {}})); got != "[1000 1001 1002 5000]" {
		t.Errorf("ports %s", got)
	}
	if got := spans([]int{1000, 1001, 1002, 1004, 1006, 1007}); got != "1000-1002, 1004, 1006-1007" {
		t.Errorf("spans %s", got)
	}
}

func TestFoldersThatCanNotBeWrittenIntoTheFileAreRefused(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"relative", "/tmp/a b", "/tmp/a,b", "/tmp/a'b", "/tmp/a\nb", "/tmp/ü", "/" + strings.Repeat("x", 90)} {
		_, err := Open(context.Background(), Options{
			Dir: t.TempDir(), RunDir: dir, PrimaryAddr: local(1), SecondaryAddr: local(2), Ports: [2]int{1, 2},
		})
		if err == nil {
			t.Errorf("%q was accepted", dir)
		}
	}
}
