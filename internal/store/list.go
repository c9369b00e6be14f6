package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"steward/internal/filter"
	"steward/internal/store/dbsqlc"
)

// Page is which part of a list is wanted: Number counts from 1; Size 0 means 100.
type Page struct {
	Number, Size int
}

func (p Page) limit() int32 {
	if p.Size == 0 {
		return 100
	}
	return int32(min(max(p.Size, 1), 500))
}

func (p Page) offset() int32 {
	const most = math.MaxInt32 // a page as far out is empty anyway
	before := int64(max(p.Number, 1) - 1)
	return int32(min(before, most/int64(p.limit())) * int64(p.limit()))
}

// ListQuery is which items of a list are wanted, and in which order.
type ListQuery struct {
	Page
	Filter filter.Filter
}

// columns maps a filter's field to the SQL expression it stands for: the only
// SQL that a request can choose. Values are always arguments.
type columns map[string]string

// shown is a time as answers show it, to the second: what was read in an answer
// must match when it is asked for.
func shown(column string) string { return "date_trunc('second', " + column + ")" }

// sqlBuilder collects conditions and their arguments.
type sqlBuilder struct {
	columns columns
	// key settles the order of items that are alike otherwise: "id" when empty.
	key  string
	args []any
}

func (b *sqlBuilder) arg(v any) string {
	b.args = append(b.args, v)
	return "$" + strconv.Itoa(len(b.args))
}

var sqlOps = map[filter.Op]string{
	filter.Equal: "=", filter.NotEqual: "<>", filter.Greater: ">", filter.AtLeast: ">=", filter.Less: "<", filter.AtMost: "<=",
}

// where compiles a node. Unknown fields match nothing: the parser refuses them.
func (b *sqlBuilder) where(n filter.Node) string {
	switch n.Op {
	case filter.And, filter.Or:
		return b.connective(n)
	}
	column, known := b.columns[n.Field]
	switch {
	case !known:
		return "false"
	case n.Value == nil && n.Op == filter.Equal:
		return column + " IS NULL"
	case n.Value == nil:
		return column + " IS NOT NULL"
	case n.Op == filter.Contains:
		return fmt.Sprintf("position(lower(%s::text) in lower(%s)) > 0", b.arg(n.Value), column)
	case n.Op == filter.NotEqual:
		return fmt.Sprintf("%s IS DISTINCT FROM %s", column, b.arg(n.Value))
	}
	return fmt.Sprintf("%s %s %s", column, sqlOps[n.Op], b.arg(n.Value))
}

func (b *sqlBuilder) connective(n filter.Node) string {
	if len(n.Children) == 0 {
		return "true"
	}
	parts := make([]string, len(n.Children))
	for i, child := range n.Children {
		parts[i] = b.where(child)
	}
	word := " AND "
	if n.Op == filter.Or {
		word = " OR "
	}
	return "(" + strings.Join(parts, word) + ")"
}

// tail is the filter's condition, the order and the page, to follow a WHERE
// that has one condition already. own is the list's own order.
func (b *sqlBuilder) tail(q ListQuery, own string) string {
	text := ""
	if q.Filter.Where != nil {
		text = " AND " + b.where(*q.Filter.Where)
	}
	order := own
	if column, ok := b.columns[q.Filter.OrderBy]; ok {
		direction := " ASC"
		if q.Filter.Descending {
			direction = " DESC"
		}
		order = column + direction + ", " + cmp.Or(b.key, "id") + direction
	}
	return fmt.Sprintf("%s ORDER BY %s LIMIT %s OFFSET %s", text, order, b.arg(q.limit()), b.arg(q.offset()))
}

// collect reads all rows that a query finds.
func collect[T any](ctx context.Context, db dbsqlc.DBTX, scan func(row pgx.Row, more ...any) (T, error), sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, classify(err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) { return scan(row) })
	return found, classify(err)
}

// listing reads a list page by page. Its parts are SQL of our own; conditions
// on values go through arg.
type listing[T any] struct {
	sqlBuilder
	// what is the SELECT's columns; from, the table and the list's own
	// condition; own, its order.
	what, from, own string
	// scan reads the columns of a row, and what follows them into more.
	scan func(row pgx.Row, more ...any) (T, error)
}

// page is one page of the items that match, and how many do.
func (l listing[T]) page(ctx context.Context, db dbsqlc.DBTX, q ListQuery) ([]T, int, error) {
	b := sqlBuilder{l.columns, l.key, slices.Clone(l.args)}
	sql := l.what + ", count(*) OVER () FROM " + l.from + b.tail(q, l.own)
	rows, err := db.Query(ctx, sql, b.args...)
	if err != nil {
		return nil, 0, classify(err)
	}
	total := 0
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) { return l.scan(row, &total) })
	if err == nil && len(found) == 0 && q.Number > 1 {
		q.Page = Page{Number: 1, Size: 1}
		_, total, err = l.page(ctx, db, q) // past the end nothing tells how many there are
	}
	return found, total, classify(err)
}
