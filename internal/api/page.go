package api

import (
	"context"
	"time"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/store"
)

// Paging are a list's parameters. Exported, since Huma looks into exported
// members only.
type Paging struct {
	Page     int `query:"page" minimum:"1" default:"1" doc:"The page to return."`
	PageSize int `query:"page_size" minimum:"25" maximum:"500" default:"100" doc:"Items on a page."`
}

func (p Paging) page() store.Page { return store.Page{Number: min(p.Page, 1<<30), Size: p.PageSize} }

// Listing are the parameters of a list that can be filtered.
type Listing struct {
	Paging
	Filter string `header:"X-Filter" doc:"Which items, and in which order: a JSON object."`
}

func (l Listing) query(fields filter.Fields) (store.ListQuery, error) {
	f, err := filter.Parse(l.Filter, fields)
	return store.ListQuery{Page: l.page(), Filter: f}, err
}

// Unfiltered are the parameters of a list that has one order and can't be filtered: a filter isn't ignored.
type Unfiltered struct {
	Filter string `header:"X-Filter" doc:"Refused, but for {}: this list can't be filtered."`
}

// refuse is nil when no filter is asked for.
func (u Unfiltered) refuse() error {
	_, err := filter.Parse(u.Filter, filter.Fields{})
	return err
}

// list is the envelope of every list.
type list[T any] struct {
	Data    []T `json:"data" nullable:"false"`
	Page    int `json:"page"`
	Pages   int `json:"pages"`
	Results int `json:"results"`
}

// newList shows items as one page of total.
func newList[T, V any](items []T, total int, p Paging, view func(T) V) list[V] {
	l := list[V]{Data: make([]V, len(items)), Page: p.Page, Pages: max(1, (total+p.PageSize-1)/p.PageSize), Results: total}
	for i, item := range items {
		l.Data[i] = view(item)
	}
	return l
}

// listPage is the page asked for of what find has.
func listPage[T, V any](l Listing, fields filter.Fields, show func(T) V, find func(store.ListQuery) ([]T, int, error)) (list[V], error) {
	q, err := l.query(fields)
	if err != nil {
		return list[V]{}, err
	}
	found, total, err := find(q)
	return newList(found, total, l.Paging, show), err
}

// registerList adds an operation that lists what a use case has, page by page.
func registerList[T, V any](a *API, e endpoint, fields filter.Fields, find func(context.Context, account.Principal, store.ListQuery) ([]T, int, error), show func(T) V) {
	register(a, e, func(ctx context.Context, c call[Listing, none]) (list[V], error) {
		return listPage(c.In, fields, show, func(q store.ListQuery) ([]T, int, error) { return find(ctx, c.Principal, q) })
	})
}

// slicePage is one page of a list that is in memory.
func slicePage[T any](items []T, p Paging) []T {
	first := min((min(p.Page, 1<<30)-1)*p.PageSize, len(items))
	return items[first:min(first+p.PageSize, len(items))]
}

func optionalTime(t *time.Time) *string {
	if t == nil {
		return nil
	}
	return new(showTime(*t))
}

func showTime(t time.Time) string { return filter.FormatTime(t) }

// seconds is a duration to the millisecond, in the fewest digits: divided in
// milliseconds, 1.735 stays so.
func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// parseTime reads a time of a body; nil stays nil.
func parseTime(field string, text *string, faults *fault.Faults) *time.Time {
	if text == nil {
		return nil
	}
	t, ok := filter.ParseTime(*text)
	if !ok {
		faults.Add(field, "Must be a time such as 2026-01-31T18:04:05")
		return nil
	}
	return &t
}
