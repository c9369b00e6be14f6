package api_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestMethods walks the document: a path that is there and lacks the method
// answers 405 and says which methods it has; a path that isn't there answers 404.
func TestMethods(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	methods := map[string][]string{}
	for name := range documented(t) {
		method, path, _ := strings.Cut(name, " ")
		methods[path] = append(methods[path], method)
	}
	for path, has := range methods {
		if slices.Contains(has, "GET") {
			has = append(has, "HEAD")
		}
		has = append(has, "OPTIONS")
		slices.Sort(has)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"} {
			r := b.send(method, path, b.full, "")
			if slices.Contains(has, method) {
				if r.StatusCode == 405 {
					t.Errorf("%s %s is documented and answers 405", method, path)
				}
				continue
			}
			allowed := strings.Split(r.Header.Get("Allow"), ", ")
			slices.Sort(allowed)
			if r.StatusCode != 405 || !slices.Equal(allowed, has) {
				t.Errorf("%s %s: %d, Allow %q; want 405 and %v", method, path, r.StatusCode, r.Header.Get("Allow"), has)
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(methods)) {
		for _, wrong := range []string{path + "/nothing/at/all", strings.Replace(path, "/v4/", "/v4//", 1), "/" + path, path + "//"} {
			for _, method := range []string{"GET", "PUT", "DELETE", "PATCH"} {
				if r := b.send(method, wrong, b.full, ""); r.StatusCode != 404 || r.Header.Get("Allow") != "" {
					t.Errorf("%s %s: %d, Allow %q; want 404", method, wrong, r.StatusCode, r.Header.Get("Allow"))
				}
			}
		}
	}
}
