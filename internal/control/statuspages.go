package control

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/measure"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/store"
)

// StatusPages are the use cases of what accounts show to everybody. All but Public are for
// unrestricted users.
type StatusPages struct{ Deps }

// StatusPageChange is what a page is made of or changed to; nil fields stay.
type StatusPageChange struct {
	Slug, Title       *string
	Services          *[]monitor.ServiceID
	Databases         *[]cluster.ID
	Days              *int
	ShowResponseTimes *bool
}

func (in StatusPageChange) apply(p monitor.StatusPage) monitor.StatusPage {
	p.Slug, p.Title = changed(in.Slug, p.Slug), changed(in.Title, p.Title)
	p.Services, p.Databases = changed(in.Services, p.Services), changed(in.Databases, p.Databases)
	p.Days, p.ShowResponseTimes = changed(in.Days, p.Days), changed(in.ShowResponseTimes, p.ShowResponseTimes)
	return p
}

func statusPageEntity(p monitor.StatusPage) operation.Entity {
	return operation.Entity{Type: operation.StatusPage, ID: int64(p.ID)}
}

// List is a page of the account's status pages.
func (s *StatusPages) List(ctx context.Context, p account.Principal, q store.ListQuery) ([]monitor.StatusPage, int, error) {
	return unrestrictedPage(ctx, p, q, s.Store.StatusPages)
}

// View is one status page.
func (s *StatusPages) View(ctx context.Context, p account.Principal, id monitor.StatusPageID) (monitor.StatusPage, error) {
	return unrestrictedOne(ctx, p, id, s.Store.StatusPage)
}

// check adds to a request's faults what is wrong with a page, and what it shows that isn't the account's.
func (s *StatusPages) check(ctx context.Context, tx *store.Tx, page monitor.StatusPage, faults fault.Faults) error {
	faults = combine(faults, page.Validate())
	services, databases, err := tx.StatusEntriesThere(ctx, page.Account, page.Services, page.Databases)
	if err != nil {
		return err
	}
	if services < len(page.Services) && !faults.Name("services") {
		faults = append(faults, fault.NotValid("services"))
	}
	if databases < len(page.Databases) && !faults.Name("databases") {
		faults = append(faults, fault.NotValid("databases"))
	}
	return faults.Err()
}

// Create adds a page. It can be read at once.
func (s *StatusPages) Create(ctx context.Context, p account.Principal, in StatusPageChange, faults fault.Faults) (monitor.StatusPage, error) {
	if err := unrestricted(p); err != nil {
		return monitor.StatusPage{}, err
	}
	page := in.apply(monitor.StatusPage{Account: p.Account, Days: monitor.DefaultStatusDays})
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if _, err := tx.HoldAccount(ctx, p.Account); err != nil { // of two who add the last one, one waits
			return err
		}
		if n, err := tx.CountStatusPages(ctx, p.Account); err != nil {
			return err
		} else if n >= monitor.MostStatusPages {
			return fault.NewPrecondition("An account has at most %d status pages.", monitor.MostStatusPages)
		}
		if err := s.check(ctx, tx, page, faults); err != nil {
			return err
		}
		if page, err = tx.CreateStatusPage(ctx, page); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.StatusPageCreate, statusPageEntity(page), page.Title)
	})
	return page, err
}

// Update changes a page.
func (s *StatusPages) Update(ctx context.Context, p account.Principal, id monitor.StatusPageID, in StatusPageChange, faults fault.Faults) (monitor.StatusPage, error) {
	if err := unrestricted(p); err != nil {
		return monitor.StatusPage{}, err
	}
	var page monitor.StatusPage
	err := s.Store.InTx(ctx, func(tx *store.Tx) error {
		before, err := tx.LockStatusPage(ctx, p.Account, id)
		if err != nil {
			return err
		}
		page = in.apply(before)
		if err := s.check(ctx, tx, page, faults); err != nil {
			return err
		}
		if page, err = tx.UpdateStatusPage(ctx, page); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.StatusPageUpdate, statusPageEntity(page), page.Title)
	})
	return page, err
}

// Delete removes a page: nobody can read it any more.
func (s *StatusPages) Delete(ctx context.Context, p account.Principal, id monitor.StatusPageID) error {
	return unrestrictedDelete(ctx, s.Deps, p, id, operation.StatusPageDelete, (*store.Tx).LockStatusPage, (*store.Tx).DeleteStatusPage, func(page monitor.StatusPage) (operation.Entity, string) {
		return statusPageEntity(page), page.Title
	})
}

const day = 24 * time.Hour

// Public is what everybody may see of the page with a slug.
func (s *StatusPages) Public(ctx context.Context, slug string) (monitor.PublicPage, error) {
	page, err := s.Store.StatusPageOf(ctx, slug)
	if err != nil {
		return monitor.PublicPage{}, err
	}
	now := s.Now().UTC()
	today := now.Truncate(day)
	shown := monitor.PublicPage{Slug: page.Slug, Title: page.Title, Days: page.Days, ShowResponseTimes: page.ShowResponseTimes, At: now}
	since := today.Add(-time.Duration(page.Days-1) * day)
	services, databases, err := s.Store.ShownOn(ctx, page.ID)
	if err != nil {
		return shown, err
	}
	names := map[any]string{}
	days, err := s.checkDays(ctx, services, since, today)
	if err != nil {
		return shown, err
	}
	for _, one := range services {
		names[one.ID] = one.Label
		shown.Entries = append(shown.Entries, publicService(one, days[one.ID], page.ShowResponseTimes))
	}
	for _, one := range databases {
		names[one.ID] = one.Label
		entry, err := s.publicDatabase(ctx, one, since, today)
		if err != nil {
			return shown, err
		}
		shown.Entries = append(shown.Entries, entry)
	}
	for _, e := range shown.Entries {
		for i := range e.Days {
			e.Days[i].Day = since.Add(time.Duration(i) * day)
		}
	}
	shown.State = monitor.Overall(shown.Entries)
	issues, err := s.Store.ShownIssues(ctx, page, since)
	for _, issue := range issues {
		shown.Incidents = append(shown.Incidents, publicIncident(issue, names))
	}
	return shown, err
}

// checkDays are the days of services, oldest first, from since to today.
func (s *StatusPages) checkDays(ctx context.Context, services []store.ShownService, since, today time.Time) (map[monitor.ServiceID][]monitor.Hour, error) {
	ids := make([]monitor.ServiceID, len(services))
	for i, one := range services {
		ids[i] = one.ID
	}
	known, err := s.Store.CheckDays(ctx, ids, since)
	if err != nil {
		return nil, err
	}
	rolled, err := s.Store.RolledUntil(ctx)
	if err != nil {
		return nil, err
	}
	n := int(today.Sub(since)/day) + 1
	all := map[monitor.ServiceID][]monitor.Hour{}
	for _, id := range ids {
		list := make([]monitor.Hour, n)
		add := func(at time.Time, do func(*monitor.Hour)) {
			if i := int(at.Sub(since) / day); !at.Before(since) && i < n {
				do(&list[i])
			}
		}
		for _, one := range known[id] {
			add(one.Day, func(h *monitor.Hour) { h.Merge(one.Hour) })
		}
		// What isn't summed up yet: an hour and some.
		samples, err := s.Store.Samples(ctx, id, latest(rolled, today.Add(-day)))
		if err != nil {
			return nil, err
		}
		for _, one := range samples {
			add(one.Started, func(h *monitor.Hour) { h.Add(one) })
		}
		all[id] = list
	}
	return all, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func publicService(one store.ShownService, days []monitor.Hour, times bool) monitor.PublicEntry {
	e := monitor.PublicEntry{Name: one.Label, State: one.Status.State()}
	var all monitor.Hour
	for _, d := range days {
		e.Days = append(e.Days, monitor.PublicDay{Uptime: d.Uptime()})
		all.Merge(d)
	}
	e.Uptime = all.Uptime()
	if times && all.Checks > 0 {
		e.Mean = new(all.Mean())
	}
	return e
}

// publicDatabase tells of a database by what was measured of it: an hour is as good as that of its best node, since
// one that takes over was there before.
func (s *StatusPages) publicDatabase(ctx context.Context, one store.ShownDatabase, since, today time.Time) (monitor.PublicEntry, error) {
	e := monitor.PublicEntry{Name: one.Label, State: monitor.StateOf(one.Status)}
	b := measure.NewBuilder(measure.Range{From: since, To: today.Add(day), Step: time.Hour})
	if s.Measurements != nil {
		s.Measurements.Add(b, one.ID, func(m measure.Metric) bool { return m == measure.Up })
	}
	if err := s.Store.AddMeasurements(ctx, b, one.ID, []measure.Metric{measure.Up}); err != nil {
		return e, err
	}
	up := measure.Combine(b.Series(), measure.Max)
	var all measure.Summary
	for from := 0; from < b.Points(); from += 24 {
		var sum measure.Summary
		for i := from; i < min(from+24, len(up)); i++ {
			sum.Add(up[i])
			all.Add(up[i])
		}
		e.Days = append(e.Days, monitor.PublicDay{Uptime: percent(sum.Point())})
	}
	e.Uptime = percent(all.Point())
	return e, nil
}

func percent(p measure.Point) *float64 {
	if !p.Known() {
		return nil
	}
	return new(p.Mean * 100)
}

// publicIncident names what of an issue is on the page, and nothing else.
func publicIncident(issue store.ShownIssue, names map[any]string) monitor.PublicIncident {
	shown := monitor.PublicIncident{ID: issue.ID, Began: issue.Created, Ended: issue.Closed, Updates: issue.Updates}
	for _, id := range issue.Services {
		shown.Names = append(shown.Names, names[id])
	}
	if number, ok := strings.CutPrefix(issue.Cause, "database/"); ok {
		number, _, _ = strings.Cut(number, "/")
		if id, err := strconv.ParseInt(number, 10, 64); err == nil {
			shown.Names = append(shown.Names, names[cluster.ID(id)])
		}
	}
	shown.Names = slices.DeleteFunc(shown.Names, func(n string) bool { return n == "" })
	return shown
}
