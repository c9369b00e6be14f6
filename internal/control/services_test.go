package control_test

import (
	"slices"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/monitor"
)

func watching(address string, interval int) control.ServiceChange {
	return control.ServiceChange{
		Label: new("service"), Type: new(monitor.URL), Address: &address, Timeout: new(5), Interval: &interval,
	}
}

// TestCheckQuota: an account may ask for so many checks a minute, and all accounts
// together for so many of one host.
func TestCheckQuota(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	services := b.Services
	services.Networks = &monitor.Networks{}
	services.Checks = control.CheckQuota{PerAccount: 10, PerHost: 7, Interval: time.Minute}
	one, other := b.tenant("one"), b.tenant("other")

	const (
		ofAccount = "The account's services would be checked more than 10 times a minute; disable some of them or raise their interval."
		ofHost    = "address: victim.example would be checked more than 7 times a minute by all who monitor it; raise the interval or monitor it by fewer services"
	)
	want := func(what string, err error, expected ...string) {
		t.Helper()
		if got := texts(err); !slices.Equal(got, expected) {
			t.Errorf("%s: %q (%v), want %q", what, got, err, expected)
		}
	}
	create := func(p account.Principal, address string, interval int) (monitor.Service, error) {
		return services.Create(t.Context(), p, watching(address, interval), nil)
	}
	update := func(p account.Principal, id monitor.ServiceID, in control.ServiceChange) error {
		_, err := services.Update(t.Context(), p, id, in, nil)
		return err
	}

	first, err := create(one, "https://victim.example/", 10)
	want("six a minute", err)
	_, err = create(one, "https://elsewhere.example/", 0)
	want("one more, at the operator's interval", err)
	_, err = create(one, "https://elsewhere.example/", 15)
	want("four more", err, ofAccount)
	_, err = create(other, "http://VICTIM.example.:8080/x", 0)
	want("another account's at the same host", err)
	_, err = create(other, "https://victim.example/", 0)
	want("one too many there", err, ofHost)
	second, err := create(one, "https://elsewhere.example/", 20)
	want("three more", err)
	_, err = create(one, "https://victim.example/", 10)
	want("too many of both", err, ofAccount, ofHost)

	want("shorter", update(one, second.ID, control.ServiceChange{Interval: new(10)}), ofAccount)
	want("to the host that has enough", update(one, second.ID, control.ServiceChange{Address: new("https://victim.example/")}), ofHost)
	want("longer", update(one, second.ID, control.ServiceChange{Interval: new(60)}))
	_, err = services.Disable(t.Context(), one, first.ID)
	want("disable", err)
	_, err = create(other, "https://victim.example/", 20)
	want("room again", err)
	_, err = services.Enable(t.Context(), one, first.ID)
	want("enable without room", err, ofHost)
	services.Checks.PerAccount = 1
	want("what was there goes on when a bound is lowered", update(one, second.ID, control.ServiceChange{Label: new("renamed")}))
	services.Checks = control.CheckQuota{}
	_, err = services.Enable(t.Context(), one, first.ID)
	want("unbounded", err)
}

// TestCheckNow: a check is asked for once in ten seconds, of services that are checked.
func TestCheckNow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("acme")
	b.Services.Networks = &monitor.Networks{}
	service, err := b.Services.Create(t.Context(), p, watching("https://example.org/", 60), nil)
	if err != nil {
		t.Fatal(err)
	}
	asked := func() (at *time.Time) {
		t.Helper()
		if err := b.Services.CheckNow(t.Context(), p, service.ID); err != nil {
			t.Fatal(err)
		}
		if err := b.store.Pool().QueryRow(t.Context(), "SELECT check_asked FROM services WHERE id = $1", int64(service.ID)).Scan(&at); err != nil || at == nil {
			t.Fatal(at, err)
		}
		return at
	}
	first := asked()
	b.now = b.now.Add(9 * time.Second)
	if second := asked(); !second.Equal(*first) {
		t.Errorf("asked for at %s, and again at %s", first, second)
	}
	b.now = b.now.Add(2 * time.Second)
	if third := asked(); third.Equal(*first) {
		t.Error("not asked for after eleven seconds")
	}
	if _, err := b.Services.Disable(t.Context(), p, service.ID); err != nil {
		t.Fatal(err)
	}
	if err := b.Services.CheckNow(t.Context(), p, service.ID); kind(err) != fault.Precondition {
		t.Errorf("of one that is disabled: %v", err)
	}
	if err := b.Services.CheckNow(t.Context(), b.tenant("other"), service.ID); kind(err) != fault.NotFound {
		t.Errorf("of another account: %v", err)
	}
}
