package seal

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretNeverShows(t *testing.T) {
	t.Parallel()
	const clear = "hunter2"
	type config struct {
		Open   Secret
		hidden Secret
	}
	secret := NewSecret(clear)
	values := []any{secret, &secret, config{secret, secret}, []Secret{secret}, map[string]Secret{"k": secret}}
	var shown []string
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b", "%o", "%U", "%c", "%e", "%t", "%p", "%T"} {
			shown = append(shown, fmt.Sprintf(verb, v))
		}
		shown = append(shown, fmt.Sprint(v), fmt.Errorf("failed: %w %v", errors.New("x"), v).Error())
		if out, err := json.Marshal(v); err == nil {
			shown = append(shown, string(out))
		}
		var log bytes.Buffer
		for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
			slog.New(handler).Info("line", "value", v)
		}
		shown = append(shown, log.String())
	}
	if out, err := xml.Marshal(secret); err == nil {
		shown = append(shown, string(out))
	}
	for _, s := range shown {
		for _, form := range []string{clear, fmt.Sprintf("%x", clear), fmt.Sprintf("%X", clear), fmt.Sprintf("%d", []byte(clear))} {
			if strings.Contains(s, form) {
				t.Errorf("shows the secret: %s", s)
			}
		}
	}
	if got := fmt.Sprint(secret); got != hidden {
		t.Errorf("prints %q, want %q", got, hidden)
	}
	if secret.Reveal() != clear || (Secret{}).Reveal() != "" {
		t.Error("Reveal doesn't give the value")
	}
}
