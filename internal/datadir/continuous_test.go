package datadir

import (
	"path/filepath"
	"testing"

	"steward/internal/config"
)

// TestContinuous: what is archived between backups is of use where it outlives the databases' disk.
func TestContinuous(t *testing.T) {
	data := t.TempDir()
	d := Dir{Data: data}
	for place, want := range map[string]bool{
		"": false, filepath.Join(data, "..", "beside", "not", "there"): false, "file://" + data: false,
		"/proc": true, "file:///proc/steward": true, "s3://bucket?region=local": true,
	} {
		if got, err := d.Continuous(config.Config{}, place); err != nil || got != want {
			t.Errorf("%q: %v, %v", place, got, err)
		}
		for _, chosen := range []bool{true, false} {
			c := config.Config{Backups: config.Backups{URL: place, Continuous: &chosen}}
			if got, err := d.Continuous(c, ""); err != nil || got != chosen {
				t.Errorf("%q with %v: %v, %v", place, chosen, got, err)
			}
		}
		if got, err := d.Continuous(config.Config{Backups: config.Backups{URL: place}}, ""); err != nil || got != want {
			t.Errorf("%q configured: %v, %v", place, got, err)
		}
	}
}
