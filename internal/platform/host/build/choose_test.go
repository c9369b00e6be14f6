package build

import (
	"testing"

	"steward/internal/cluster"
	"steward/internal/engine"
)

func TestChoose(t *testing.T) {
	pg := func(series, version, builder string) engine.Installation {
		return engine.Installation{Flavour: engine.FlavourPostgreSQL, Series: series, Version: version, Builder: builder}
	}
	all := []engine.Installation{
		pg("15", "15.9", "npm"), pg("15", "15.18", "npm"), pg("15", "15.18", "debian"), pg("16", "16.2", "npm"),
		{Flavour: engine.FlavourMariaDB, Series: "10.11", Version: "10.11.19", Builder: "debian"},
	}
	for _, c := range []struct {
		name, series, current string
		patch                 bool
		want                  string // "" for a problem
	}{
		{"new: the newest, the distribution's first", "15", "", false, "postgresql-15.18-debian"},
		{"new: no such series", "14", "", false, ""},
		{"stays with its build", "15", "postgresql-15.9-npm", false, "postgresql-15.9-npm"},
		{"a patch stays with the builder", "15", "postgresql-15.9-npm", true, "postgresql-15.18-npm"},
		{"a patch of the newest", "15", "postgresql-15.18-debian", true, "postgresql-15.18-debian"},
		{"its build was replaced by a newer one", "15", "postgresql-15.4-debian", false, "postgresql-15.18-debian"},
		{"its build was replaced by an older one", "15", "postgresql-15.20-debian", false, ""},
		{"its builder is gone", "15", "postgresql-15.18-zip", false, ""},
		{"not a name", "15", "rubbish", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, problem := Choose(all, cluster.PostgreSQL, c.series, c.current, c.patch)
			if (problem != "") != (c.want == "") || c.want != "" && got.ID() != c.want {
				t.Errorf("got %s, problem %q; want %q", got.ID(), problem, c.want)
			}
		})
	}
}
