package measure

import (
	"cmp"
	"slices"

	"steward/internal/cluster"
)

// Family is a metric as exporters show it: one name with samples that labels tell apart.
type Family struct {
	Name, Help string
	Kind       Kind
	Samples    []Sample
}

// Kind is what a family's numbers are, in Prometheus' words.
type Kind string

// The kinds.
const (
	KindGauge   Kind = "gauge"
	KindCounter Kind = "counter"
	KindUntyped Kind = "untyped"
)

// Sample is one number of a family. Labels are names and values in turn.
type Sample struct {
	Labels []string
	Value  float64
}

// Table is the size of a table, or of an index, in bytes.
type Table struct {
	Database, Schema, Table string
	// Index is the name of the index; "" for a table, whose size is without its indexes.
	Index string
	Bytes int64
	// Rows is how many there are, as the server estimates; 0 for indexes.
	Rows int64
}

// Largest are the largest tables and indexes, at most so many, the largest first.
func Largest(all []Table, most int) []Table {
	slices.SortFunc(all, func(a, b Table) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Database, b.Database), cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Table, b.Table), cmp.Compare(a.Index, b.Index))
	})
	return all[:min(most, len(all))]
}

// UpFamily is the name of the family that says whether a server answers.
func UpFamily(of cluster.Engine) string {
	if of == cluster.MySQL {
		return "mysql_up"
	}
	return "pg_up"
}
