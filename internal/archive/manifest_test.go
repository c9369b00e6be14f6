package archive

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzParseManifest(f *testing.F) {
	good, err := json.Marshal(Manifest{Version: version, StoredBytes: 1, SHA256: strings.Repeat("ab", 32)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version": 2}`))
	f.Add([]byte(strings.Replace(string(good), "abab", "zz", 1)))
	f.Fuzz(func(t *testing.T, content []byte) {
		m, err := parseManifest(content)
		if err == nil && (m.Version != version || m.StoredBytes <= 0 || len(m.SHA256) != 64 || m.Bytes < 0) {
			t.Errorf("taken: %+v", m)
		}
	})
}

func TestManifestOfAnotherFormat(t *testing.T) {
	if _, err := parseManifest([]byte(`{"version": 9}`)); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("%v", err)
	}
}
