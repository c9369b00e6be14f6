package app

import (
	"strings"
	"testing"

	"steward/internal/config"
)

func TestWelcomeSaysThatThereIsNoMailServer(t *testing.T) {
	t.Parallel()
	var without, with strings.Builder
	o := Options{Config: config.Default()}
	o.tellNotices(&without)
	o.SMTP = config.SMTP{URL: "smtp://u:hunter2@mail.example.org", From: "alerts@example.org"}
	o.Notify.Channels = map[string]string{"ops": "ntfy://ntfy.sh/hunter2"}
	o.tellNotices(&with)
	if !strings.Contains(without.String(), "no mail server is configured (smtp.url)") || with.String() != "  mail      from alerts@example.org\n  channel   ops\n" {
		t.Errorf("%s%s", without.String(), with.String())
	}
}
