package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"steward/internal/cluster"
	"steward/internal/filter"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// inventory is an account with databases and events that differ in all that
// can be filtered by.
type inventory struct {
	s        *store.Store
	v        store.Viewer
	clusters []cluster.Cluster
	events   []operation.Operation
}

func newInventory(t *testing.T) inventory {
	t.Helper()
	now := time.Date(2026, 1, 31, 18, 4, 5, 250_000_000, time.UTC)
	s := pgtest.Store(t, pgtest.WithNow(func() time.Time { return now }))
	u, other := newAccount(t, s, "a"), newAccount(t, s, "other")
	i := inventory{s: s, v: store.Viewer{Account: u.Account}}
	for n, label := range []string{"alpha", "beta", "Alphabet", "ümlaut_%", "z"} {
		now = now.Add(time.Duration(n) * 700 * time.Millisecond)
		want := spec(label)
		if n%2 == 1 {
			want.Engine, want.Series, want.Size, want.Type = cluster.MySQL, "10.11", 3, "g6-standard-1"
		}
		c, err := create(t.Context(), s, u.Account, want)
		if err != nil {
			t.Fatal(err)
		}
		if n > 2 {
			inTx(t, s, func(tx *store.Tx) (err error) {
				c, err = tx.Transition(t.Context(), c, cluster.Ready)
				return err
			})
		}
		i.clusters = append(i.clusters, c)
		status := []operation.Status{operation.Scheduled, operation.Finished, operation.Notification}[n%3]
		action := []operation.Action{operation.Create, operation.Delete}[n%2]
		i.events = append(i.events, newOperation(t, s, operation.Operation{Account: u.Account, Cluster: c.ID, Action: action, Status: status, Username: []string{"ann", "ben", ""}[n%3]}))
		newCluster(t, s, other.Account, label)
	}
	return i
}

// get reads a field as answers show it.
func get(item any, field string) any {
	switch x := item.(type) {
	case cluster.Cluster:
		return map[string]any{
			"id": int64(x.ID), "label": x.Label, "type": x.Type, "engine": string(x.Engine), "version": x.Series, "region": x.Region,
			"status": string(x.Status), "created": x.Created.Truncate(time.Second), "updated": x.Updated.Truncate(time.Second), "cluster_size": int64(x.Size),
		}[field]
	case operation.Operation:
		return map[string]any{
			"id": int64(x.ID), "action": string(x.Action), "created": x.Created.Truncate(time.Second), "status": string(x.Status),
			"entity.id": int64(x.Cluster), "entity.type": "database", "username": x.Username,
		}[field]
	}
	panic(item)
}

// expected is the list that a filter asks for: the same, in memory.
func expected[T any](items []T, f filter.Filter, newestFirst bool) []int64 {
	found := filter.Apply(f, items, func(item T, field string) any { return get(item, field) })
	if f.OrderBy == "" && newestFirst {
		slices.Reverse(found)
	}
	ids := []int64{}
	for _, item := range found {
		ids = append(ids, get(item, "id").(int64))
	}
	return ids
}

// value draws one that occurs, one near it, or a hostile one.
func value[T any](r *rapid.T, kind filter.Kind, field string, items []T) any {
	v := get(rapid.SampledFrom(items).Draw(r, "like"), field)
	switch kind {
	case filter.Number:
		return rapid.OneOf(rapid.Just(v.(int64)), rapid.Int64()).Draw(r, "number")
	case filter.Time:
		at := v.(time.Time).Add(time.Duration(rapid.IntRange(-1, 1).Draw(r, "seconds")) * time.Second)
		return at.Format(rapid.SampledFrom([]string{"2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00"}).Draw(r, "layout"))
	}
	return rapid.OneOf(rapid.Just(v.(string)), rapid.SampledFrom([]string{"'; DROP TABLE clusters; --", "%", "_", `\`, "", "ÜM", "$1", "\u2028"}), rapid.String()).
		Filter(func(s string) bool { return !strings.ContainsRune(s, 0) }).Draw(r, "text")
}

// condition draws a filter object.
func condition[T any](r *rapid.T, fields filter.Fields, items []T, depth int) map[string]any {
	if depth > 0 && rapid.Bool().Draw(r, "nest") {
		parts := []any{}
		for range rapid.IntRange(0, 3).Draw(r, "parts") {
			parts = append(parts, condition(r, fields, items, depth-1))
		}
		return map[string]any{rapid.SampledFrom([]string{"+and", "+or"}).Draw(r, "connective"): parts}
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	field := rapid.SampledFrom(names).Draw(r, "field")
	v := value(r, fields[field], field, items)
	ops := []string{"", "+neq", "+gt", "+gte", "+lt", "+lte"}
	if fields[field] == filter.Text {
		ops = append(ops, "+contains")
	}
	op := rapid.SampledFrom(ops).Draw(r, "op")
	if op != "" {
		return map[string]any{field: map[string]any{op: v}}
	}
	if rapid.IntRange(0, 9).Draw(r, "null") == 0 {
		v = nil
	}
	return map[string]any{field: v}
}

// agree checks that a list is what its filter means, page by page.
func agree[T any](t *testing.T, fields filter.Fields, items []T, newestFirst bool, list func(store.ListQuery) ([]T, int, error)) {
	t.Helper()
	rapid.Check(t, func(r *rapid.T) {
		object := condition(r, fields, items, 3)
		if rapid.Bool().Draw(r, "ordered") {
			names := make([]string, 0, len(fields))
			for name := range fields {
				names = append(names, name)
			}
			slices.Sort(names)
			object["+order_by"] = rapid.SampledFrom(names).Draw(r, "order by")
			object["+order"] = rapid.SampledFrom([]string{"asc", "desc"}).Draw(r, "order")
		}
		text, err := json.Marshal(object)
		if err != nil {
			r.Fatal(err)
		}
		f, err := filter.Parse(string(text), fields)
		if err != nil {
			r.Fatalf("%s: %v", text, err)
		}
		want := expected(items, f, newestFirst)
		size := rapid.IntRange(1, 6).Draw(r, "page size")
		got := []int64{}
		for page := 1; page <= len(want)/size+2; page++ {
			found, total, err := list(store.ListQuery{Page: store.Page{Number: page, Size: size}, Filter: f})
			if err != nil {
				r.Fatalf("%s: %v", text, err)
			}
			if total != len(want) {
				r.Fatalf("%s: total %d, want %d", text, total, len(want))
			}
			for _, item := range found {
				got = append(got, get(item, "id").(int64))
			}
		}
		if d := diff.Diff(want, got); d != "" {
			r.Fatalf("%s: -want +got\n%s", text, d)
		}
	})
}

// TestFilterMeansTheSameInSQL: whatever the parser accepts runs, and finds the
// same in the same order as in memory.
func TestFilterMeansTheSameInSQL(t *testing.T) {
	t.Parallel()
	i := newInventory(t)
	t.Run("clusters", func(t *testing.T) {
		agree(t, store.ClusterFields, i.clusters, false, func(q store.ListQuery) ([]cluster.Cluster, int, error) {
			return i.s.Clusters(context.Background(), i.v, "", q)
		})
	})
	t.Run("events", func(t *testing.T) {
		agree(t, store.EventFields, i.events, true, func(q store.ListQuery) ([]operation.Operation, int, error) {
			return i.s.Operations(context.Background(), i.v, q)
		})
	})
}

func TestFilterMeaning(t *testing.T) {
	t.Parallel()
	i := newInventory(t)
	for _, test := range []struct {
		text string
		want []string
	}{
		{`{"label": "alpha"}`, []string{"alpha"}},
		{`{"label": {"+neq": "alpha"}, "engine": "postgresql"}`, []string{"Alphabet", "z"}},
		{`{"label": {"+contains": "ALPHA"}}`, []string{"alpha", "Alphabet"}},
		{`{"label": {"+contains": "t_%"}}`, []string{"ümlaut_%"}},
		{`{"+or": [{"label": "beta"}, {"label": "alpha"}]}`, []string{"alpha", "beta"}},
		{`{"+and": []}`, []string{"alpha", "beta", "Alphabet", "ümlaut_%", "z"}},
		{`{"+order": "desc"}`, []string{"alpha", "beta", "Alphabet", "ümlaut_%", "z"}},
		{`{"version": "10.11", "+order_by": "label", "+order": "desc"}`, []string{"ümlaut_%", "beta"}},
		{`{"created": "2026-01-31T18:04:05"}`, []string{"alpha", "beta"}},
		{`{"created": {"+gt": "2026-01-31T18:04:05"}, "status": "provisioning"}`, []string{"Alphabet"}},
		{`{"created": {"+lt": "2026-01-31T20:04:06+02:00"}}`, []string{"alpha", "beta"}},
		{`{"region": null}`, nil},
		{`{"cluster_size": {"+gte": 1, "+lt": 3}}`, []string{"alpha", "Alphabet", "z"}},
	} {
		f, err := filter.Parse(test.text, store.ClusterFields)
		if err != nil {
			t.Fatalf("%s: %v", test.text, err)
		}
		found, total, err := i.s.Clusters(t.Context(), i.v, "", store.ListQuery{Filter: f})
		if err != nil {
			t.Fatal(err)
		}
		var labels []string
		for _, c := range found {
			labels = append(labels, c.Label)
		}
		if d := diff.Diff(test.want, labels); d != "" || total != len(test.want) {
			t.Errorf("%s: total %d, -want +got\n%s", test.text, total, d)
		}
	}
}

// TestUnknownFieldMatchesNothing: should a tree not come from the parser, its
// field still never becomes SQL.
func TestUnknownFieldMatchesNothing(t *testing.T) {
	t.Parallel()
	i := newInventory(t)
	for _, field := range []string{"account_id", "1=1 OR id", "sealed"} {
		q := store.ListQuery{Filter: filter.Filter{Where: &filter.Node{Op: filter.Equal, Field: field, Value: int64(1)}, OrderBy: field}}
		found, total, err := i.s.Clusters(t.Context(), i.v, "", q)
		if err != nil || len(found) != 0 || total != 0 {
			t.Errorf("%s: %v, %d, %v", field, found, total, err)
		}
	}
}

func TestEngineLists(t *testing.T) {
	t.Parallel()
	i := newInventory(t)
	for engine, want := range map[cluster.Engine]int{cluster.MySQL: 2, cluster.PostgreSQL: 3, "": 5} {
		if found, total, err := i.s.Clusters(t.Context(), i.v, engine, store.ListQuery{}); err != nil || len(found) != want || total != want {
			t.Errorf("%q: %s, %d, %v", engine, fmt.Sprint(found), total, err)
		}
	}
}
