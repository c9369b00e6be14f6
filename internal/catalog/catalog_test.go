package catalog

import (
	"testing"

	"steward/internal/cluster"
)

func TestMajorVersionIsItsNewestSeries(t *testing.T) {
	t.Parallel()
	c := Catalog{Engines: []Engine{
		{Engine: cluster.MySQL, Series: "10.6"},
		{Engine: cluster.MySQL, Series: "10.11"},
		{Engine: cluster.MySQL, Series: "10.9"},
		{Engine: cluster.MySQL, Series: "8.4"},
		{Engine: cluster.PostgreSQL, Series: "15"},
		{Engine: cluster.PostgreSQL, Series: "17"},
	}}
	for _, v := range []struct {
		engine        cluster.Engine
		version, want string
	}{
		{cluster.MySQL, "10", "10.11"},
		{cluster.MySQL, "10.6", "10.6"},
		{cluster.MySQL, "8", "8.4"},
		{cluster.MySQL, "1", "1"},
		{cluster.MySQL, "10.1", "10.1"},
		{cluster.MySQL, "15", "15"},
		{cluster.MySQL, "", ""},
		{cluster.PostgreSQL, "15", "15"},
		{cluster.PostgreSQL, "16", "16"},
	} {
		if got := c.Series(v.engine, v.version); got != v.want {
			t.Errorf("%s/%s is %s, want %s", v.engine, v.version, got, v.want)
		}
	}
}
