package postgresql

import (
	"fmt"
	"slices"
	"strings"

	"steward/internal/engine"
)

// followed is a table of the source's as it is here.
type followed struct {
	shape relationShape
	// columns are ours that aren't computed.
	columns []string
	// primary are the columns of the primary key here, equals the operators by which columns of unique indexes are compared.
	primary []string
	equals  map[string]string
	// inserts are statements that insert rows, by how many.
	inserts map[int]string
}

// name is the table's, for people.
func (f *followed) name() string { return f.shape.schema + "." + f.shape.name }

func (f *followed) sql() string { return quoteName(f.shape.schema) + "." + quoteName(f.shape.name) }

// check reports what of the source's table isn't as it was when the table was made here.
func (f *followed) check() error {
	theirs := make([]string, len(f.shape.columns))
	for i, c := range f.shape.columns {
		theirs[i] = c.name
	}
	slices.Sort(theirs)
	ours := slices.Sorted(slices.Values(f.columns))
	if !slices.Equal(theirs, ours) {
		return &engine.SourceError{Reason: "The table " + shownText(f.shape.schema+"."+f.shape.name) + " isn't here as it is at the source: it was changed, or made, after it was copied. Begin again."}
	}
	return nil
}

// rowChange is a change of one row as the target is told it.
type rowChange struct {
	sql    string
	values [][]byte
	// rows is how many it must change.
	rows int64
}

// rowSQL writes a statement.
type rowSQL struct {
	strings.Builder
	values [][]byte
}

// arg is a value's place.
func (b *rowSQL) arg(value []byte) string {
	if value == nil {
		value = []byte{}
	}
	b.values = append(b.values, value)
	return fmt.Sprintf("$%d", len(b.values))
}

// value is a value's place, or NULL.
func (b *rowSQL) value(f field) string {
	if f.value == nil {
		b.values = append(b.values, nil)
		return fmt.Sprintf("$%d", len(b.values))
	}
	return b.arg(f.value)
}

// statement is what a change does to its table.
func (f *followed) statement(c change) (rowChange, error) {
	for _, row := range [][]field{c.row, c.old} {
		if row != nil && len(row) != len(f.shape.columns) {
			return rowChange{}, errMangled
		}
	}
	var b rowSQL
	switch c.kind {
	case changeInsert:
		if len(c.row) > 0 {
			if !f.insertable(c.row) {
				return rowChange{}, errMangled
			}
			return f.insert([][]field{c.row}), nil
		}
		return rowChange{sql: "INSERT INTO " + f.sql() + " DEFAULT VALUES", rows: 1}, nil
	case changeUpdate:
		return f.update(&b, c)
	case changeDelete:
		b.WriteString("DELETE FROM ONLY " + f.sql())
		if err := f.find(&b, c.old, c.oldWhole); err != nil {
			return rowChange{}, err
		}
		return rowChange{b.String(), b.values, 1}, nil
	}
	return rowChange{}, errMangled
}

const (
	// mostTogether is how many rows one statement inserts; fewer are inserted by one of a number that is fewer times smaller: so there are few statements.
	mostTogether, fewer = 64, 4
	// mostValues is how many values a statement may have.
	mostValues = 65535
)

// together is how many of some rows one statement inserts.
func (f *followed) together(rows int) int {
	for n := mostTogether; n > 1; n /= fewer {
		if n <= rows && n*len(f.shape.columns) <= mostValues {
			return n
		}
	}
	return 1
}

// insertable reports whether a row is one of the table's, whole.
func (f *followed) insertable(row []field) bool {
	return len(row) == len(f.shape.columns) && !slices.ContainsFunc(row, func(value field) bool { return value.left })
}

// insert inserts rows that are insertable.
func (f *followed) insert(rows [][]field) rowChange {
	values := make([][]byte, 0, len(rows)*len(f.shape.columns))
	for _, row := range rows {
		for _, value := range row {
			values = append(values, value.value)
		}
	}
	text, known := f.inserts[len(rows)]
	if !known {
		text = f.insertSQL(len(rows))
		if f.inserts == nil {
			f.inserts = map[int]string{}
		}
		f.inserts[len(rows)] = text
	}
	return rowChange{text, values, int64(len(rows))}
}

func (f *followed) insertSQL(rows int) string {
	names, all := make([]string, len(f.shape.columns)), make([]string, rows)
	for i, c := range f.shape.columns {
		names[i] = quoteName(c.name)
	}
	places := make([]string, len(names))
	for n := range all {
		for i := range places {
			places[i] = fmt.Sprintf("$%d", n*len(places)+i+1)
		}
		all[n] = "(" + strings.Join(places, ", ") + ")"
	}
	return "INSERT INTO " + f.sql() + " (" + strings.Join(names, ", ") + ") OVERRIDING SYSTEM VALUE VALUES " + strings.Join(all, ", ")
}

func (f *followed) update(b *rowSQL, c change) (rowChange, error) {
	var set []string
	for i, value := range c.row {
		if !value.left {
			set = append(set, quoteName(f.shape.columns[i].name)+" = "+b.value(value))
		}
	}
	if len(set) == 0 {
		return rowChange{}, errMangled
	}
	b.WriteString("UPDATE ONLY " + f.sql() + " SET " + strings.Join(set, ", "))
	old, whole := c.old, c.oldWhole
	if old == nil {
		old = c.row // its key is what it was
	}
	if err := f.find(b, old, whole); err != nil {
		return rowChange{}, err
	}
	return rowChange{b.String(), b.values, 1}, nil
}

// find adds by what the row is found: the key that the source names; where it sends all of the old row, the primary key, and without one all columns.
func (f *followed) find(b *rowSQL, row []field, whole bool) error {
	var found []string
	for i, c := range f.shape.columns {
		if whole && !slices.Contains(f.primary, c.name) || !whole && !c.key {
			continue
		}
		if row[i].left || row[i].value == nil {
			return errMangled
		}
		equal := "OPERATOR(pg_catalog.=)"
		if known, ok := f.equals[c.name]; ok {
			equal = known
		}
		found = append(found, quoteName(c.name)+" "+equal+" "+b.arg(row[i].value))
	}
	if len(found) > 0 {
		b.WriteString(" WHERE " + strings.Join(found, " AND "))
		return nil
	}
	if !whole {
		return errMangled
	}
	// Not all types can be compared; all can be written, and are written here as they are there. Any of several equal rows will do.
	for i, c := range f.shape.columns {
		switch {
		case row[i].left:
			return errMangled
		case row[i].value == nil:
			found = append(found, quoteName(c.name)+" IS NULL")
		default:
			found = append(found, fmt.Sprintf("%[1]s IS NOT NULL AND pg_catalog.format('%%s', %[1]s) = %[2]s", quoteName(c.name), b.arg(row[i].value)))
		}
	}
	fmt.Fprintf(b, " WHERE ctid = (SELECT ctid FROM ONLY %s WHERE %s LIMIT 1)", f.sql(), strings.Join(append(found, "true"), " AND "))
	return nil
}
