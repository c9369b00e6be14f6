package control

import (
	"context"
	"errors"
	"time"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/store"
)

// Services are the use cases of what is monitored. All of them are for
// unrestricted users.
type Services struct{ Deps }

// ServiceChange is what a service is made of or changed to; nil fields stay, and
// the zero value takes away what can be left out.
type ServiceChange struct {
	Label, Address, Body, Group, Notes, Region *string

	Type        *monitor.ServiceType
	Timeout     *int
	Interval    *int
	Credentials *[]monitor.CredentialID
}

func (in ServiceChange) apply(s monitor.Service) monitor.Service {
	s.Label, s.Address, s.Body = changed(in.Label, s.Label), changed(in.Address, s.Address), changed(in.Body, s.Body)
	s.Group, s.Notes, s.Region = changed(in.Group, s.Group), changed(in.Notes, s.Notes), changed(in.Region, s.Region)
	s.Type, s.Timeout, s.Interval = changed(in.Type, s.Type), changed(in.Timeout, s.Timeout), changed(in.Interval, s.Interval)
	s.Credentials = changed(in.Credentials, s.Credentials)
	return s.Normalized()
}

// errUnchanged ends a transaction in which there was nothing to do.
var errUnchanged = errors.New("nothing to change")

func serviceEntity(s monitor.Service) operation.Entity {
	return operation.Entity{Type: operation.Service, ID: int64(s.ID)}
}

// validate finds what is wrong with a service, and where it leads.
func (s *Services) validate(service monitor.Service) fault.Faults {
	faults := service.Validate()
	address, err := monitor.ParseAddress(service.Type, service.Address)
	if err != nil {
		return append(faults, faultsIn(err)...)
	}
	return append(faults, s.Networks.ValidateDestination(address, &service.Region)...)
}

// List is a page of the account's services.
func (s *Services) List(ctx context.Context, p account.Principal, q store.ListQuery) ([]monitor.Service, int, error) {
	return unrestrictedPage(ctx, p, q, s.Store.Services)
}

// View is one service.
func (s *Services) View(ctx context.Context, p account.Principal, id monitor.ServiceID) (monitor.Service, error) {
	return unrestrictedOne(ctx, p, id, s.Store.Service)
}

// Create adds a service, which is checked within seconds.
func (s *Services) Create(ctx context.Context, p account.Principal, in ServiceChange, faults fault.Faults) (monitor.Service, error) {
	if err := unrestricted(p); err != nil {
		return monitor.Service{}, err
	}
	service := in.apply(monitor.Service{Account: p.Account, Status: monitor.Pending})
	found := s.validate(service)
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		exceeded, err := tx.Exceeded(ctx, p.Account, account.Amounts{Services: 1}, s.Quotas, s.Catalog.Size)
		if err != nil {
			return err
		}
		if err := s.admit(ctx, tx, nil, service, combine(faults, append(found, exceeded...))); err != nil {
			return err
		}
		if service, err = tx.CreateService(ctx, service); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.ServiceCreate, serviceEntity(service), service.Label)
	})
	return service, err
}

// admit adds to a request's faults those that only the store knows of. before is
// the service as it was; nil when there was none.
func (s *Services) admit(ctx context.Context, tx *store.Tx, before *monitor.Service, after monitor.Service, faults fault.Faults) error {
	exceeded, err := s.Checks.admit(ctx, tx, before, after)
	if err != nil {
		return err
	}
	return s.withCredentials(ctx, tx, after, combine(faults, exceeded))
}

// withCredentials adds to a request's faults that a credential isn't there.
func (s *Services) withCredentials(ctx context.Context, tx *store.Tx, service monitor.Service, faults fault.Faults) error {
	for _, f := range faults {
		if f.Field == "credentials" {
			return faults
		}
	}
	there, err := tx.HasCredentials(ctx, service.Account, service.Credentials)
	if err != nil {
		return err
	}
	if !there {
		faults = append(faults, fault.NotValid("credentials"))
	}
	return faults.Err()
}

// Update changes a service. What was found of it holds on, unless what is checked
// has changed.
func (s *Services) Update(ctx context.Context, p account.Principal, id monitor.ServiceID, in ServiceChange, faults fault.Faults) (monitor.Service, error) {
	return s.change(ctx, p, id, operation.ServiceUpdate, func(tx *store.Tx, before monitor.Service) (monitor.Service, error) {
		after := in.apply(before)
		if err := s.admit(ctx, tx, &before, after, combine(faults, s.validate(after))); err != nil {
			return after, err
		}
		if before.Status != monitor.Disabled && !before.SameChecks(after) {
			after.Status, after.Since, after.Reason = monitor.Pending, s.Now(), ""
		}
		after, err := tx.UpdateService(ctx, after)
		if err != nil || before.Group == after.Group {
			return after, err
		}
		return after, s.Issues.TellNewcomers(ctx, tx, after.Account)
	})
}

// Disable ends the checks of a service, and the outage it is in, for the time
// being. One that is disabled stays so.
func (s *Services) Disable(ctx context.Context, p account.Principal, id monitor.ServiceID) (monitor.Service, error) {
	return s.change(ctx, p, id, operation.ServiceDisable, func(tx *store.Tx, service monitor.Service) (monitor.Service, error) {
		if service.Status == monitor.Disabled {
			return service, errUnchanged
		}
		service.Status, service.Since, service.Reason = monitor.Disabled, s.Now(), ""
		service, err := tx.UpdateService(ctx, service)
		if err != nil {
			return service, err
		}
		return service, s.Issues.Unwatch(ctx, tx, service, service.Since, p.User.Username+" disabled it.")
	})
}

// Enable has a disabled service be checked again. One that is enabled stays so.
func (s *Services) Enable(ctx context.Context, p account.Principal, id monitor.ServiceID) (monitor.Service, error) {
	return s.change(ctx, p, id, operation.ServiceEnable, func(tx *store.Tx, before monitor.Service) (monitor.Service, error) {
		if before.Status != monitor.Disabled {
			return before, errUnchanged
		}
		after := before
		after.Status, after.Since, after.Reason = monitor.Pending, s.Now(), ""
		if err := s.admit(ctx, tx, &before, after, nil); err != nil {
			return after, err
		}
		return tx.UpdateService(ctx, after)
	})
}

// askedEvery is how often a check is made because somebody asks for it, at most.
const askedEvery = 10 * time.Second

// CheckNow has a service be checked within seconds, beside its usual checks, unless somebody has just asked for that.
func (s *Services) CheckNow(ctx context.Context, p account.Principal, id monitor.ServiceID) error {
	if err := unrestricted(p); err != nil {
		return err
	}
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		service, err := tx.ServiceForUpdate(ctx, p.Account, id)
		if err != nil {
			return err
		}
		if service.Status == monitor.Disabled {
			return fault.NewPrecondition("The service isn't checked; enable it first.")
		}
		_, err = tx.AskCheck(ctx, id, s.Now().Add(-askedEvery))
		return err
	})
}

// Delete ends the checks of a service for good.
func (s *Services) Delete(ctx context.Context, p account.Principal, id monitor.ServiceID) error {
	_, err := s.change(ctx, p, id, operation.ServiceDelete, func(tx *store.Tx, service monitor.Service) (monitor.Service, error) {
		if err := s.Issues.Unwatch(ctx, tx, service, s.Now(), p.User.Username+" deleted it."); err != nil {
			return service, err
		}
		return service, tx.DeleteService(ctx, service.ID)
	})
	return err
}

// change runs what changes a service, and records that it did.
func (s *Services) change(ctx context.Context, p account.Principal, id monitor.ServiceID, action operation.Action, do func(*store.Tx, monitor.Service) (monitor.Service, error)) (monitor.Service, error) {
	if err := unrestricted(p); err != nil {
		return monitor.Service{}, err
	}
	var after monitor.Service
	err := s.Store.InTx(ctx, func(tx *store.Tx) error {
		before, err := tx.ServiceForUpdate(ctx, p.Account, id)
		if err != nil {
			return err
		}
		if after, err = do(tx, before); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, action, serviceEntity(after), after.Label)
	})
	if errors.Is(err, errUnchanged) {
		return after, nil
	}
	return after, err
}

// History is what is known of a service's checks.
type History struct {
	// Samples are those of the last day, oldest first.
	Samples []monitor.Sample
	// Day, Week and Month sum up the last 24 hours, 7 and 30 days.
	Day, Week, Month monitor.Hour
}

// History tells how a service has been.
func (s *Services) History(ctx context.Context, p account.Principal, id monitor.ServiceID) (History, error) {
	if _, err := s.View(ctx, p, id); err != nil {
		return History{}, err
	}
	now := s.Now()
	samples, err := s.Store.Samples(ctx, id, now.Add(-day))
	if err != nil {
		return History{}, err
	}
	h := History{Samples: samples}
	rolled, err := s.Store.RolledUntil(ctx)
	if err != nil {
		return h, err
	}
	for sum, since := range map[*monitor.Hour]time.Duration{&h.Week: 7 * day, &h.Month: 30 * day} {
		if *sum, err = s.Store.Sum(ctx, id, now.Add(-since)); err != nil {
			return h, err
		}
	}
	for _, one := range samples {
		h.Day.Add(one)
		if !one.Started.Before(rolled) {
			h.Week.Add(one)
			h.Month.Add(one)
		}
	}
	return h, nil
}
