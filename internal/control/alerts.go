package control

import (
	"context"
	"slices"
	"strings"

	"steward/internal/account"
	"steward/internal/alert"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

// Alerts are the use cases of the rules by which databases are judged. All of them are for unrestricted users.
type Alerts struct{ Deps }

// AlertChange is what a rule is made of or changed to; nil members stay.
type AlertChange struct {
	Label, Description *string
	Severity           *alert.Severity
	Enabled            *bool
	Criteria           *[]alert.Criterion
	Trigger            *alert.Trigger
	Scope              *alert.Scope
	Entities           *[]cluster.ID
	Regions            *[]string
	Channels           *[]alert.ChannelID
}

func (in AlertChange) apply(r alert.Rule) alert.Rule {
	r.Label, r.Description, r.Severity = changed(in.Label, r.Label), changed(in.Description, r.Description), changed(in.Severity, r.Severity)
	r.Enabled, r.Criteria, r.Trigger = changed(in.Enabled, r.Enabled), changed(in.Criteria, r.Criteria), changed(in.Trigger, r.Trigger)
	r.Scope, r.Regions = changed(in.Scope, r.Scope), once(changed(in.Regions, r.Regions))
	r.Entities, r.Channels = once(changed(in.Entities, r.Entities)), once(changed(in.Channels, r.Channels))
	return r
}

// once has each item once, in the order given.
func once[T comparable](all []T) (out []T) {
	for _, one := range all {
		if !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

// DefinedAlert is a rule with what it names.
type DefinedAlert struct {
	alert.Rule
	Entities []store.AlertEntity
	Channels []alert.Channel
}

func alertEntity(r alert.Rule) operation.Entity {
	return operation.Entity{Type: operation.Alert, ID: int64(r.ID)}
}

// nameable is what the rules of an account can name.
type nameable struct {
	entities []store.AlertEntity
	channels []alert.Channel
}

func (s *Alerts) nameable(ctx context.Context, of account.ID) (n nameable, err error) {
	if n.entities, err = s.Store.AlertEntities(ctx, of); err != nil {
		return n, err
	}
	own, err := s.Store.AlertChannels(ctx, of)
	n.channels = append([]alert.Channel{alert.ContactsChannel()}, own...)
	return n, err
}

func (n nameable) show(r alert.Rule) DefinedAlert {
	d := DefinedAlert{Rule: r}
	for _, e := range n.entities {
		if r.Covers(e.Subject) && r.Lacks(e.Engine) == "" {
			d.Entities = append(d.Entities, e)
		}
	}
	for _, c := range n.channels {
		if slices.Contains(r.Channels, c.ID) {
			d.Channels = append(d.Channels, c)
		}
	}
	return d
}

// check finds what a rule names that isn't there.
func (n nameable) check(r alert.Rule, catalogRegions func(string) bool) (faults fault.Faults) {
	for _, id := range r.Entities {
		at := slices.IndexFunc(n.entities, func(e store.AlertEntity) bool { return e.ID == id })
		if at < 0 {
			faults.Add("entity_ids", "%d is not valid", id)
		} else if metric := r.Lacks(n.entities[at].Engine); metric != "" {
			faults.Add("entity_ids", "Database %d has no metric %s", id, fault.Quote([]string{metric}))
		}
	}
	for _, region := range r.Regions {
		if !catalogRegions(region) {
			faults.Add("regions", "%s is not valid", fault.Quote([]string{region}))
		}
	}
	for _, id := range r.Channels {
		if !slices.ContainsFunc(n.channels, func(c alert.Channel) bool { return c.ID == id }) {
			faults.Add("channel_ids", "%d is not valid", id)
		}
	}
	return faults
}

// List are all rules of the account: the defaults, as they are for it, and its own.
func (s *Alerts) List(ctx context.Context, p account.Principal) ([]DefinedAlert, error) {
	if err := unrestricted(p); err != nil {
		return nil, err
	}
	n, err := s.nameable(ctx, p.Account)
	if err != nil {
		return nil, err
	}
	own, err := s.Store.AlertRules(ctx, p.Account)
	if err != nil {
		return nil, err
	}
	var all []DefinedAlert
	for _, r := range alert.Effective(own) {
		all = append(all, n.show(r))
	}
	return all, nil
}

// View is one of them.
func (s *Alerts) View(ctx context.Context, p account.Principal, id alert.ID) (DefinedAlert, error) {
	all, err := s.List(ctx, p)
	if err != nil {
		return DefinedAlert{}, err
	}
	for _, one := range all {
		if one.ID == id {
			return one, nil
		}
	}
	return DefinedAlert{}, fault.NewNotFound()
}

func (s *Alerts) region(id string) bool {
	_, ok := s.Catalog.Region(id)
	return ok
}

// Create adds a rule of the account's own.
func (s *Alerts) Create(ctx context.Context, p account.Principal, in AlertChange, faults fault.Faults) (DefinedAlert, error) {
	if err := unrestricted(p); err != nil {
		return DefinedAlert{}, err
	}
	n, err := s.nameable(ctx, p.Account)
	if err != nil {
		return DefinedAlert{}, err
	}
	r := in.apply(alert.Rule{Enabled: true, Scope: alert.OfEntities, CreatedBy: p.User.Username, UpdatedBy: p.User.Username}).Completed()
	found := append(r.Validate(), n.check(r, s.region)...)
	if slices.ContainsFunc(faults, func(f *fault.Fault) bool { return strings.HasPrefix(f.Field, "rule_criteria") }) { // what the door left out isn't missing
		found = slices.DeleteFunc(found, func(f *fault.Fault) bool { return f.Field == "rule_criteria.rules" })
	}
	if err := combine(faults, found).Err(); err != nil {
		return DefinedAlert{}, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.LockIssues(ctx, p.Account); err != nil { // so that two at once can't both be the last
			return err
		}
		own, err := tx.AlertRules(ctx, p.Account)
		if err != nil {
			return err
		}
		if len(own) >= alert.MostRules {
			return fault.NewPrecondition("An account can have %d alert definitions: delete one first", alert.MostRules)
		}
		if r, err = tx.SaveAlertRule(ctx, p.Account, r); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.AlertCreate, alertEntity(r), r.Label)
	})
	return n.show(r), err
}

// Update changes a rule. Of a default what it says stays, and what it is about.
func (s *Alerts) Update(ctx context.Context, p account.Principal, id alert.ID, in AlertChange, faults fault.Faults) (DefinedAlert, error) {
	if err := unrestricted(p); err != nil {
		return DefinedAlert{}, err
	}
	n, err := s.nameable(ctx, p.Account)
	if err != nil {
		return DefinedAlert{}, err
	}
	var r alert.Rule
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		before, err := s.lock(ctx, tx, p.Account, id)
		if err != nil {
			return err
		}
		r = in.apply(before)
		r.UpdatedBy = p.User.Username
		if in.Entities == nil { // some may be gone
			r.Entities = slices.DeleteFunc(r.Entities, func(id cluster.ID) bool {
				return !slices.ContainsFunc(n.entities, func(e store.AlertEntity) bool { return e.ID == id })
			})
		}
		found := n.check(r, s.region)
		if id.System() {
			found = append(before.ValidateChange(r), found...)
		} else {
			found = append(r.Validate(), found...)
		}
		if err := combine(faults, found).Err(); err != nil {
			return err
		}
		if in.Criteria != nil {
			r = r.Completed()
		}
		saved, err := tx.SaveAlertRule(ctx, p.Account, r)
		if err != nil {
			return err
		}
		r.Updated = saved.Updated
		return s.tell(ctx, tx, p, operation.AlertUpdate, alertEntity(r), r.Label)
	})
	return n.show(r), err
}

// lock is a rule as it is for an account, kept from others' changes: a default that wasn't changed has no row to lock.
func (s *Alerts) lock(ctx context.Context, tx *store.Tx, of account.ID, id alert.ID) (alert.Rule, error) {
	if err := tx.LockIssues(ctx, of); err != nil {
		return alert.Rule{}, err
	}
	row, err := tx.LockAlertRule(ctx, of, id)
	if !id.System() {
		return row, err
	}
	var changed []alert.Rule
	switch {
	case err == nil:
		changed = []alert.Rule{row}
	case !fault.IsKind(err, fault.NotFound):
		return row, err
	}
	for _, r := range alert.Effective(changed) {
		if r.ID == id {
			return r, nil
		}
	}
	return row, fault.NewNotFound()
}

// Delete removes a rule of the account's own; the issues that it opened are closed with the next look.
func (s *Alerts) Delete(ctx context.Context, p account.Principal, id alert.ID) error {
	if err := unrestricted(p); err != nil {
		return err
	}
	if _, ok := alert.Default(id); ok {
		return fault.NewPrecondition("A system alert can't be deleted; it can be switched off with status disabled")
	}
	return unrestrictedDelete(ctx, s.Deps, p, id, operation.AlertDelete, (*store.Tx).LockAlertRule, (*store.Tx).DeleteAlertRule, func(r alert.Rule) (operation.Entity, string) {
		return alertEntity(r), r.Label
	})
}
