package api_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
)

var stepField = regexp.MustCompile(`name="step" value="([0-9a-f]{64})"`)

// TestSecondFactorPage: who has a second factor is asked for a code after the right password, and gets in with it alone.
func TestSecondFactorPage(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t)
	address := b.config(b.confidential(), "databases:read_only").AuthCodeURL("state-of-the-client")
	var made struct{ Secret, Expiry, URL, QR string }
	b.decode(b.send("POST", "/v4/profile/tfa-enable", b.full, ""), &made)
	if r := b.send("POST", "/v4/profile/tfa-enable-confirm", b.full, `{"tfa_code":"12"}`); r.StatusCode != 400 || !strings.HasPrefix(r.faults()[0], "tfa_code: ") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	code := func(at time.Time) string {
		text, err := totp.GenerateCode(made.Secret, at)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var confirmed struct {
		Scratch string
		Codes   []string `json:"recovery_codes"`
	}
	b.decode(b.send("POST", "/v4/profile/tfa-enable-confirm", b.full, `{"tfa_code":"`+code(time.Now())+`"}`), &confirmed)
	if len(confirmed.Codes) != 10 || confirmed.Scratch != confirmed.Codes[0] {
		t.Errorf("%+v", confirmed)
	}
	for _, path := range []string{"/v4/profile", "/v4/account/users/admin"} {
		if r := b.send("GET", path, b.full, ""); !strings.Contains(r.body, `"two_factor_auth":true`) && !strings.Contains(r.body, `"tfa_enabled":true`) {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	c := browser(t)
	csrf := csrfField.FindStringSubmatch(get(t, c, address).body)[1]
	form := url.Values{"csrf": {csrf}, "username": {"admin"}, "password": {password}, "answer": {"allow"}}
	r := do(t, c, http.MethodPost, address, form)
	step := stepField.FindStringSubmatch(r.body)
	if r.StatusCode != 200 || step == nil || strings.Contains(r.body, `name="password"`) {
		t.Fatalf("after the password: %d %s", r.StatusCode, r.body)
	}
	send := func(code string) page {
		csrf := csrfField.FindStringSubmatch(r.body)[1]
		return do(t, c, http.MethodPost, address, url.Values{"csrf": {csrf}, "step": {step[1]}, "code": {code}, "answer": {"allow"}})
	}
	if r = send("000000"); r.StatusCode != 401 || !strings.Contains(r.body, "The code is wrong") || !strings.Contains(r.body, step[1]) {
		t.Errorf("a wrong code: %d %s", r.StatusCode, r.body)
	}
	if r = send(confirmed.Codes[3]); r.StatusCode != http.StatusSeeOther || !strings.Contains(r.Header.Get("Location"), "code=") {
		t.Errorf("a recovery code: %d %s", r.StatusCode, r.body)
	}
	wrong := b.login(address, "admin", "a wrong password", "allow")
	if stepField.MatchString(wrong.body) {
		t.Error("a wrong password is asked for a code")
	}
	if r := b.send("POST", "/v4/profile/tfa-disable", b.full, ""); r.StatusCode != 200 {
		t.Errorf("disable: %d %s", r.StatusCode, r.body)
	}
	b.code(address, "admin")
}
