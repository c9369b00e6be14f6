package control_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"steward/internal/account"
	"steward/internal/fault"
)

// factor is a user with a second factor, whose authenticator shows code.
type factor struct {
	*bench
	p        account.Principal
	secret   string
	recovery []string
}

func (f *factor) code(at time.Time) string {
	f.t.Helper()
	code, err := totp.GenerateCode(f.secret, at)
	if err != nil {
		f.t.Fatal(err)
	}
	return code
}

// begin is the secret of a log-in that waits for a code.
func (f *factor) begin() string {
	f.t.Helper()
	step, err := f.Logins.BeginStep(f.t.Context(), f.p.User, account.ConsoleClient)
	if err != nil || step == "" {
		f.t.Fatalf("step %q, %v", step, err)
	}
	return step
}

func (f *factor) try(step, code string) error {
	u, err := f.Logins.FinishStep(f.t.Context(), step, account.ConsoleClient, code)
	if err == nil && u.ID != f.p.User.ID {
		f.t.Errorf("logged in as %+v", u)
	}
	return err
}

func newFactor(t *testing.T) *factor {
	t.Helper()
	b := newBench(t)
	f := &factor{bench: b, p: b.tenant("acme")}
	made, err := b.Logins.StartFactor(t.Context(), f.p)
	if err != nil || !strings.HasPrefix(made.URL, "otpauth://totp/steward:acme?") || !strings.HasPrefix(made.Picture, "data:image/png;base64,") {
		t.Fatalf("%+v, %v", made, err)
	}
	f.secret = made.Secret
	if step, err := b.Logins.BeginStep(t.Context(), f.p.User, account.ConsoleClient); err != nil || step != "" {
		t.Errorf("one that wasn't confirmed is asked for: %q, %v", step, err)
	}
	if _, err := b.Logins.ConfirmFactor(t.Context(), f.p, "000000", nil); kind(err) != fault.Invalid {
		t.Errorf("confirmed by a wrong code: %v", err)
	}
	if f.recovery, err = b.Logins.ConfirmFactor(t.Context(), f.p, f.code(b.now), nil); err != nil || len(f.recovery) != 10 {
		t.Fatalf("%v, %v", f.recovery, err)
	}
	return f
}

// TestSecondFactor: a code and a recovery code serve once each, of now and of the steps beside it, for the client that the
// password was given to and for five minutes.
func TestSecondFactor(t *testing.T) {
	t.Parallel()
	f := newFactor(t)
	if err := f.try(f.begin(), f.code(f.now)); kind(err) != fault.Unauthenticated {
		t.Errorf("the code that confirmed it: %v", err)
	}
	step := f.begin()
	for name, code := range map[string]string{"none": "", "two steps before": f.code(f.now.Add(-time.Minute)), "two steps after": f.code(f.now.Add(time.Minute))} {
		if err := f.try(step, code); kind(err) != fault.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.Logins.FinishStep(t.Context(), step, "another-client", f.code(f.now.Add(30*time.Second))); kind(err) != fault.NotFound {
		t.Errorf("of another client: %v", err)
	}
	if err := f.try(step, f.code(f.now.Add(30*time.Second))); err != nil {
		t.Errorf("the step after: %v", err)
	}
	if err := f.try(step, f.recovery[0]); kind(err) != fault.NotFound {
		t.Errorf("a log-in that has ended: %v", err)
	}
	f.now = f.now.Add(30 * time.Second)
	if err := f.try(f.begin(), f.code(f.now)); kind(err) != fault.Unauthenticated {
		t.Errorf("a code that was used: %v", err)
	}
	if err := f.try(f.begin(), " "+strings.ToUpper(strings.ReplaceAll(f.recovery[0], "-", " "))); err != nil {
		t.Errorf("a recovery code: %v", err)
	}
	if err := f.try(f.begin(), f.recovery[0]); kind(err) != fault.Unauthenticated {
		t.Errorf("a recovery code for the second time: %v", err)
	}
	late := f.begin()
	f.now = f.now.Add(5*time.Minute + time.Second)
	if err := f.try(late, f.code(f.now)); kind(err) != fault.NotFound {
		t.Errorf("after five minutes: %v", err)
	}
	if err := f.Logins.DisableFactor(t.Context(), f.p); err != nil {
		t.Fatal(err)
	}
	if step, err := f.Logins.BeginStep(t.Context(), f.p.User, account.ConsoleClient); err != nil || step != "" {
		t.Errorf("after it was taken away: %q, %v", step, err)
	}
}

// TestSecondFactorIsntGuessed: five wrong codes in a row, and none is taken for a quarter of an hour; a recovery code is.
func TestSecondFactorIsntGuessed(t *testing.T) {
	t.Parallel()
	f := newFactor(t)
	f.now = f.now.Add(time.Minute)
	step := f.begin()
	for i := range 5 {
		if err := f.try(step, fmt.Sprintf("00000%d", i)); kind(err) != fault.Unauthenticated {
			t.Fatalf("wrong code %d: %v", i, err)
		}
	}
	if err := f.try(step, f.code(f.now)); kind(err) != fault.TooMany {
		t.Errorf("the right code after five wrong ones: %v", err)
	}
	if err := f.try(step, f.recovery[1]); err != nil {
		t.Errorf("a recovery code after five wrong ones: %v", err)
	}
	if err := f.try(f.begin(), f.code(f.now)); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// TestSecondFactorAtOnce: of many who have the same code one logs in.
func TestSecondFactorAtOnce(t *testing.T) {
	t.Parallel()
	f := newFactor(t)
	f.now = f.now.Add(time.Minute)
	steps := make([]string, 8)
	for i := range steps {
		steps[i] = f.begin()
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	in := 0
	for _, code := range []string{f.code(f.now), f.recovery[2]} {
		for _, step := range steps {
			all.Go(func() {
				if err := f.try(step, code); err == nil {
					mu.Lock()
					defer mu.Unlock()
					in++
				}
			})
		}
	}
	all.Wait()
	if in > 2 || in == 0 {
		t.Errorf("%d logged in with one code and one recovery code", in)
	}
}

// TestSecondFactorOfOthers: an application that was lent a token doesn't lock its user out, nor in.
func TestSecondFactorOfOthers(t *testing.T) {
	t.Parallel()
	f := newFactor(t)
	lent := f.p
	lent.Client = "0123456789abcdef0123"
	if _, err := f.Logins.StartFactor(t.Context(), lent); kind(err) != fault.Forbidden {
		t.Errorf("start: %v", err)
	}
	if _, err := f.Logins.ConfirmFactor(t.Context(), lent, f.code(f.now), nil); kind(err) != fault.Forbidden {
		t.Errorf("confirm: %v", err)
	}
	if err := f.Logins.DisableFactor(t.Context(), lent); kind(err) != fault.Forbidden {
		t.Errorf("disable: %v", err)
	}
	if _, err := f.Logins.StartFactor(t.Context(), f.p); kind(err) != fault.Precondition {
		t.Errorf("start while there is one: %v", err)
	}
	var kept string
	if err := f.store.Pool().QueryRow(t.Context(), "SELECT encode(sealed, 'escape') FROM second_factors").Scan(&kept); err != nil || strings.Contains(kept, f.secret) && !strings.Contains(kept, "user/") {
		t.Errorf("the secret lies open: %q, %v", kept, err)
	}
}
