package cluster_test

import (
	"strings"
	"testing"

	"steward/internal/cluster"
	"steward/internal/fault"
)

// TestPoolValidate: what could mean something else in the pooler's files is refused, all at once.
func TestPoolValidate(t *testing.T) {
	t.Parallel()
	good := cluster.Pool{Label: "app", Database: "shop", Mode: cluster.PoolTransaction, Size: 5}
	for _, c := range []struct {
		name   string
		change func(p *cluster.Pool)
		fields string
	}{
		{"plain", func(*cluster.Pool) {}, ""},
		{"odd but possible", func(p *cluster.Pool) { p.Label, p.Database = "_A-1", `we'ird "n";%x\y #=z é` }, ""},
		{"label as long as can be", func(p *cluster.Pool) { p.Label = strings.Repeat("x", 63) }, ""},
		{"label too long", func(p *cluster.Pool) { p.Label = strings.Repeat("x", 64) }, "label"},
		{"no label", func(p *cluster.Pool) { p.Label = "" }, "label"},
		{"dash first", func(p *cluster.Pool) { p.Label = "-a" }, "label"},
		{"any database", func(p *cluster.Pool) { p.Label = "*" }, "label"},
		{"another line", func(p *cluster.Pool) { p.Label = "a\n[pgbouncer]" }, "label"},
		{"quoted", func(p *cluster.Pool) { p.Label = `"a"` }, "label"},
		{"include", func(p *cluster.Pool) { p.Label = "%include" }, "label"},
		{"path", func(p *cluster.Pool) { p.Label = "../a" }, "label"},
		{"not ASCII", func(p *cluster.Pool) { p.Label = "é" }, "label"},
		{"console", func(p *cluster.Pool) { p.Label = "PgBouncer" }, "label"},
		{"database on two lines", func(p *cluster.Pool) { p.Database = "a\nadmin_users=x" }, "database"},
		{"database too long", func(p *cluster.Pool) { p.Database = strings.Repeat("x", 64) }, "database"},
		{"an odd user", func(p *cluster.Pool) { p.User = "owner one, all +x @y #z é" }, ""},
		{"user on two lines", func(p *cluster.Pool) { p.User = "a\nhost all all 0.0.0.0/0 trust" }, "username"},
		{"user that ends the quotes", func(p *cluster.Pool) { p.User = `a" all` }, "username"},
		{"user too long", func(p *cluster.Pool) { p.User = strings.Repeat("x", 64) }, "username"},
		{"all at once", func(p *cluster.Pool) { *p = cluster.Pool{Mode: "fast"} }, "label database mode size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := good
			c.change(&p)
			if got := strings.Join(fieldsOf(p.Validate()), " "); got != c.fields {
				t.Errorf("%+v: faults of %q, want %q", p, got, c.fields)
			}
		})
	}
}

func fieldsOf(faults fault.Faults) (fields []string) {
	for _, f := range faults {
		fields = append(fields, f.Field)
	}
	return fields
}
