package monitor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/monitor"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestBackoffStartsSoonAndEndsAfterTwoDays(t *testing.T) {
	t.Parallel()
	n := monitor.Notice{State: monitor.NoticeSending, GiveUp: noon.Add(monitor.NoticePatience)}
	now, last := noon, time.Duration(0)
	for n.State != monitor.NoticeFailed {
		n.Attempts++
		if n = n.Failed(now, "Mail server doesn't answer.", false); n.State == monitor.NoticeFailed {
			break
		}
		pause := n.Due.Sub(now)
		if pause < last || pause > time.Hour || n.Attempts <= 3 && pause > 15*time.Second {
			t.Fatalf("attempt %d is followed by a pause of %s after one of %s", n.Attempts, pause, last)
		}
		now, last = n.Due, pause
	}
	if age := now.Sub(noon); age < 46*time.Hour || age > 48*time.Hour {
		t.Errorf("given up after %s", age)
	}
	if n.Problem == "" || n.Attempts < 40 {
		t.Errorf("%+v", n)
	}
}

func TestPermanentRefusalIsTheEnd(t *testing.T) {
	t.Parallel()
	n := monitor.Notice{State: monitor.NoticeSending, Attempts: 1, GiveUp: noon.Add(time.Hour)}.Failed(noon, "No such mailbox.", true)
	if n.State != monitor.NoticeFailed || n.Problem != "No such mailbox." {
		t.Errorf("%+v", n)
	}
}

func TestDelivered(t *testing.T) {
	t.Parallel()
	n := monitor.Notice{State: monitor.NoticeSending, Problem: "busy"}.Delivered(noon)
	if n.State != monitor.NoticeSent || n.Problem != "" || !n.Sent.Equal(noon) {
		t.Errorf("%+v", n)
	}
}

func TestContentLeavesSecretsAtHome(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://shop.example.org/buy?key=hunter2":          "https://shop.example.org/buy",
		"https://shop.example.org/buy#hunter2":              "https://shop.example.org/buy",
		"https://me:hunter2@shop.example.org/buy?a=1#b":     "https://shop.example.org/buy",
		"tcp://db.example.org:5432":                         "tcp://db.example.org:5432",
		"db.example.org:5432":                               "db.example.org:5432",
		"https://[2001:db8::1]:8443/?x":                     "https://[2001:db8::1]:8443/",
		"https://shop.example.org/%zz?key=hunter2#hunter2":  "https://shop.example.org/%zz",
		"https://shop.example.org?next=https://me:h@x.org/": "https://shop.example.org",
	} {
		c := monitor.Content{Services: []monitor.NoticeService{{Address: address}}}
		public := c.Public()
		if got := public.Services[0]; got.Address != want {
			t.Errorf("%s: %+v", address, got)
		}
		if c.Services[0].Address != address {
			t.Error("the original was changed")
		}
	}
}

func content() monitor.Content {
	return monitor.Content{
		Ticket: 17, Summary: "shop.example.org: 2 services have a problem", Host: "shop.example.org", Opened: noon,
		Services: []monitor.NoticeService{
			{Label: "shop", Address: "https://shop.example.org/", Class: monitor.Refused, Detail: "The connection was refused.", Since: noon},
			{Label: "mail", Address: "shop.example.org:25", Class: monitor.TimedOut, Since: noon.Add(time.Second)},
		},
	}
}

func TestLetterOfOpening(t *testing.T) {
	t.Parallel()
	l := monitor.Notice{Kind: monitor.NoticeOpened, Issue: 12, Content: content()}.Letter()
	if l.Subject != "Problem: shop.example.org: 2 services have a problem" {
		t.Error(l.Subject)
	}
	want := `shop.example.org: 2 services have a problem

It began at 2026-11-21 12:00:00 UTC.

Another notice follows when it is over.

- shop
  https://shop.example.org/
  Found bad at 2026-11-21 12:00:00 UTC: The connection was refused.

- mail
  shop.example.org:25
  Found bad at 2026-11-21 12:00:01 UTC: timeout

Ticket 17, issue 12.
`
	if diff := cmp.Diff(want, l.Text()); diff != "" {
		t.Error(diff)
	}
}

func TestLetterOfLateOpeningSaysSo(t *testing.T) {
	t.Parallel()
	over := noon.Add(time.Hour)
	text := monitor.Notice{Kind: monitor.NoticeOpened, Content: content(), Over: &over}.Letter().Text()
	if !strings.Contains(text, "It has been over since 2026-11-21 13:00:00 UTC") || strings.Contains(text, "follows when it is over") {
		t.Error(text)
	}
}

// TestLetterOfRecoveryStandsAlone: who didn't get the opening learns all of it here.
func TestLetterOfRecoveryStandsAlone(t *testing.T) {
	t.Parallel()
	closed := noon.Add(12*time.Minute + 5*time.Second)
	c := content()
	c.Closed, c.Services[0].Recovered = &closed, &closed
	n := monitor.Notice{Kind: monitor.NoticeRecovered, Issue: 12, Content: c, OpeningFailed: true}
	if got := n.Letter().Subject; got != "Recovered: shop after 12m5s" {
		t.Error(got)
	}
	text := n.Letter().Text()
	for _, part := range []string{
		"It began at 2026-11-21 12:00:00 UTC, ended at 2026-11-21 12:12:05 UTC and lasted 12m5s.",
		"The notice of its beginning couldn't be delivered.",
		"Well again since 2026-11-21 12:12:05 UTC. Found bad at 2026-11-21 12:00:00 UTC: The connection was refused.",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("without %q:\n%s", part, text)
		}
	}
	n.OpeningFailed = false
	if strings.Contains(n.Letter().Text(), "couldn't") {
		t.Error("tells of a failure that wasn't")
	}
}

// TestSubjectOfTheEndSaysWhatBecame: it names what is well again and after how long,
// or that nobody looks any more, and doesn't repeat the fault.
func TestSubjectOfTheEndSaysWhatBecame(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) *time.Time { return new(noon.Add(d)) }
	service := func(label string, since time.Duration, recovered, unwatched *time.Time) monitor.NoticeService {
		return monitor.NoticeService{Label: label, Since: noon.Add(since), Recovered: recovered, Unwatched: unwatched}
	}
	for want, n := range map[string]monitor.Notice{
		"Recovered: shop after 1m30s":                 {Kind: monitor.NoticeRecovered, Content: monitor.Content{Services: []monitor.NoticeService{service("shop", time.Minute, at(150*time.Second), nil)}}},
		"Recovered: shop and mail after 2m0s":         {Kind: monitor.NoticeRecovered, Content: monitor.Content{Services: []monitor.NoticeService{service("shop", 0, at(time.Minute), nil), service("mail", time.Minute, at(2*time.Minute), nil)}}},
		"Recovered: shop and 2 others after 1m0s":     {Kind: monitor.NoticeRecovered, Content: monitor.Content{Services: []monitor.NoticeService{service("shop", 0, at(time.Minute), nil), service("b", 0, at(0), nil), service("c", 0, at(0), nil)}}},
		"Recovered: mail after 1m0s":                  {Kind: monitor.NoticeRecovered, Content: monitor.Content{Services: []monitor.NoticeService{service("shop", 0, nil, at(time.Minute)), service("mail", time.Minute, at(2*time.Minute), nil)}}},
		"Recovered: orders after 1h0m0s":              {Kind: monitor.NoticeRecovered, Content: monitor.Content{About: "orders"}},
		"Recovered: ticket 17 after 1h0m0s":           {Kind: monitor.NoticeRecovered},
		"No longer watched: shop":                     {Kind: monitor.NoticeUnwatched, Content: monitor.Content{Services: []monitor.NoticeService{service("shop", 0, nil, at(time.Minute))}}},
		"No longer watched: orders's backup nightly1": {Kind: monitor.NoticeUnwatched, Content: monitor.Content{About: "orders's backup nightly1"}},
	} {
		n.Content.Ticket, n.Content.Opened, n.Content.Closed, n.Content.Summary = 17, noon, at(time.Hour), "the fault"
		l := n.Letter()
		if l.Subject != want {
			t.Errorf("%q, want %q", l.Subject, want)
		}
		if well := strings.Contains(l.Text(), "Well again") || strings.Contains(l.Text(), "It is over"); well != (n.Kind == monitor.NoticeRecovered) {
			t.Errorf("%s:\n%s", want, l.Text())
		}
	}
}

func TestLetterKeepsLinesLines(t *testing.T) {
	t.Parallel()
	c := content()
	c.Summary = "x\r\nBcc: all@example.org\u2028\x00" + strings.Repeat("é", 300)
	c.Services[0].Label = "a\nb"
	l := monitor.Notice{Kind: monitor.NoticeOpened, Content: c}.Letter()
	if strings.ContainsAny(l.Subject, "\r\n\x00\u2028") || len([]rune(l.Subject)) != 160 {
		t.Errorf("%q", l.Subject)
	}
	if strings.Contains(l.Text(), "\nBcc") || strings.Contains(l.Text(), "\r") || !strings.Contains(l.Text(), "- a b\n") {
		t.Error(l.Text())
	}
}

// TestLettersOfAMaintenanceWindow: each has a plain subject and says what is done and
// when; the announcement names the window, with the date of its end where that is another.
func TestLettersOfAMaintenanceWindow(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	letter := func(kind monitor.NoticeKind, end time.Time, work string) monitor.Letter {
		return monitor.Notice{Kind: kind, Database: 7, Window: start, Created: start.Add(time.Minute), Content: monitor.Content{
			Maintenance: &monitor.NoticeWindow{Database: "orders", Start: start, End: end, Work: work},
		}}.Letter()
	}
	const move = "The servers move from version 15.17 to 15.18."
	for _, c := range []struct {
		kind          monitor.NoticeKind
		end           time.Time
		work, subject string
		text          string
	}{
		{
			monitor.NoticeAnnounced, start.Add(time.Hour), move, "Maintenance of orders: 2026-11-23 02:00 to 03:00 UTC",
			move + "\n\nThis is done in the maintenance window, which is open from 2026-11-23 02:00 to 03:00 UTC.\n\n" +
				"Meanwhile connections may break; programs that connect again go on.\n\n" +
				"Another notice follows when it begins, and one when it has ended.\n\nDatabase orders, id 7.\n",
		},
		{
			monitor.NoticeAnnounced, start.Add(24 * time.Hour), move, "Maintenance of orders: 2026-11-23 02:00 to 2026-11-24 02:00 UTC", "",
		},
		{
			monitor.NoticeBegun, start.Add(time.Hour), move, "Maintenance of orders has begun",
			move + "\n\nIt began at 2026-11-23 02:01:00 UTC. The maintenance window is open from 2026-11-23 02:00 to 03:00 UTC.\n\n" +
				"Meanwhile connections may break; programs that connect again go on.\n\n" +
				"Another notice follows when it has ended.\n\nDatabase orders, id 7.\n",
		},
		{
			monitor.NoticeDone, start.Add(time.Hour), "The servers moved.", "Maintenance of orders is done",
			"The servers moved.\n\nIt ended at 2026-11-23 02:01:00 UTC.\n\nDatabase orders, id 7.\n",
		},
		{
			monitor.NoticeUnfinished, start.Add(time.Hour), "The window\r\nended.", "Maintenance of orders isn't finished",
			"The window ended.\n\nIt ended at 2026-11-23 02:01:00 UTC.\n\nDatabase orders, id 7.\n",
		},
	} {
		l := letter(c.kind, c.end, c.work)
		if l.Subject != c.subject {
			t.Errorf("%s: subject %q", c.kind, l.Subject)
		}
		if diff := cmp.Diff(c.text, l.Text()); c.text != "" && diff != "" {
			t.Errorf("%s: %s", c.kind, diff)
		}
	}
}

// TestGrowthInWords: what people read of a database that filled up.
func TestGrowthInWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind    monitor.NoticeKind
		growth  monitor.NoticeGrowth
		subject string
		text    string
	}{
		{
			monitor.NoticeGrown,
			monitor.NoticeGrowth{Database: "orders", Type: "large", Note: "80 % were in use."},
			"Database orders grows to large",
			"80 % were in use.\n\nMeanwhile connections may break; programs that connect again go on.\n\nDatabase orders, id 7.\n",
		},
		{
			monitor.NoticeFull,
			monitor.NoticeGrowth{Database: "orders", Note: "80 % are in use\r\nand no more."},
			"Database orders fills up and can't grow",
			"80 % are in use and no more.\n\nIt is tried again as long as the disk is that full.\n\nDatabase orders, id 7.\n",
		},
	} {
		l := monitor.Notice{Kind: c.kind, Database: 7, Content: monitor.Content{Growth: &c.growth}}.Letter()
		if l.Subject != c.subject {
			t.Errorf("%s: subject %q", c.kind, l.Subject)
		}
		if diff := cmp.Diff(c.text, l.Text()); diff != "" {
			t.Errorf("%s: %s", c.kind, diff)
		}
	}
}
