package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linode/linodego"

	"steward/internal/notify/notifytest"
	"steward/internal/pgtest"
	"steward/test/harness"
)

// upgrade is a series of which two builds of one builder are installed.
type upgrade struct {
	series string
	// builds is what a version's build is called, from and to are the versions.
	builds, from, to string
	// fields make a cluster's writes safe with a second node.
	fields map[string]any
}

var (
	upgradeOfPostgreSQL = upgrade{"postgresql/15", "postgresql-%s-npm", "15.17", "15.18", map[string]any{"replication_commit_type": "on"}}
	upgradeOfMariaDB    = upgrade{"mysql/10.11", "mariadb-%s-debian-unpacked", "10.11.18", "10.11.19", map[string]any{"replication_type": "semi_synch"}}
)

func (u upgrade) older() string { return fmt.Sprintf(u.builds, u.from) }
func (u upgrade) newer() string { return fmt.Sprintf(u.builds, u.to) }

// told is how people are told of it, in the present or in the past.
func (u upgrade) told(verb string) string {
	return fmt.Sprintf("The servers %s from version %s to %s.", verb, u.from, u.to)
}

// TestMaintenanceWindow: a newer minor that comes while steward runs is shown at
// once, and moved to when the window opens, under load. No acknowledged write is
// lost, and the event says from where to where. Before the window nothing moves.
// test/crash has windows of PostgreSQL, of three nodes.
func TestMaintenanceWindow(t *testing.T) {
	t.Parallel()
	tryWindow(t, upgradeOfMariaDB, 1)
}

// TestMaintenanceWindowThorough is TestMaintenanceWindow of three nodes.
func TestMaintenanceWindowThorough(t *testing.T) {
	t.Parallel()
	upgrades := []upgrade{upgradeOfMariaDB}
	if all() {
		upgrades = append(upgrades, upgradeOfPostgreSQL)
	}
	for _, u := range upgrades {
		t.Run(strings.ReplaceAll(u.series, "/", "-"), func(t *testing.T) {
			t.Parallel()
			tryWindow(t, u, 3)
		})
	}
}

// tryWindow does so with a cluster of so many nodes.
func tryWindow(t *testing.T, u upgrade, size int) {
	engines := t.TempDir()
	bring := func(build string) { harness.InstallEngine(t, engines, build) }

	bring(u.older())
	store := pgtest.MigratedURL(t)
	box := notifytest.Start(t, notifytest.Options{})
	s := harness.Prepare(t, harness.WithTags("failpoint"), ofMariaDB, harness.WithConfig(fmt.Sprintf(
		"engines: {folders: [%s], discover_every: 1s}\npool: {size: 0}\nmaintenance: {notify: true}\nsmtp: {url: %q, from: watch@example.org, ca_file: %q}",
		engines, box.URL(), box.CAFile)))
	s.Start("--store", store)
	harness.BeginWith(t, store, u.older())
	if status, body := s.Call("POST", "/v4/managed/contacts", map[string]any{"name": "Ann", "email": "ann@example.org"}, nil); status != 200 {
		t.Fatal(body)
	}
	spec := harness.Small("windows", u.series)
	spec["cluster_size"] = size
	if size > 1 {
		maps.Copy(spec, u.fields)
	}
	d := s.CreateActive(spec)
	if d.ServerVersion != u.from {
		t.Fatalf("it began with %s", d.ServerVersion)
	}

	// The window opens on an hour that is far enough for the rest to be tried first.
	opens := time.Now().UTC().Add(90 * time.Minute).Truncate(time.Hour)
	window := map[string]any{"frequency": "weekly", "duration": 4, "hour_of_day": opens.Hour(), "day_of_week": (int(opens.Weekday())+6)%7 + 1}
	if status, body := s.Call("PUT", d.Path(), map[string]any{"updates": window}, nil); status != 200 {
		t.Fatal(body)
	}
	bring(u.newer())
	mustShow(t, s, d, opens, u)

	w := harness.NewWriter(t, s, d)
	s.Stop()
	const soon = 10 * time.Second
	s.Env = []string{"STEWARD_CLOCK_AHEAD=" + (time.Until(opens) - soon).String()}
	begun := time.Now()
	s.Start("--store", store)
	for time.Since(begun) < soon-5*time.Second {
		if nodes, err := s.Nodes(d); err == nil && moved(nodes, u) > 0 {
			t.Fatalf("moved before the window: %+v", nodes)
		}
		time.Sleep(time.Second)
	}
	var done linodego.Event
	s.Eventually("maintained", func() error {
		events := eventsOf(t, s, d)
		for _, e := range events {
			if string(e.Action) == "database_maintenance" && e.Status == linodego.EventFinished {
				done = e
				return nil
			}
		}
		return fmt.Errorf("%+v", events)
	})
	if want := u.told("moved"); done.Message != want {
		t.Errorf("the event says %q, want %q", done.Message, want)
	}
	if now := s.AwaitHealthy(d, size); now.ServerVersion != u.to {
		t.Errorf("it runs %s", now.ServerVersion)
	}
	if nodes, err := s.Nodes(d); err != nil || moved(nodes, u) != size {
		t.Errorf("nodes: %+v, %v", nodes, err)
	}
	w.StopAndCheck()
	mustHaveTold(t, s, store, box, opens, u)
}

// mustHaveTold: the contact got three mails in one thread, each once, and the operator's
// list has them.
func mustHaveTold(t *testing.T, s *harness.Server, store string, box *notifytest.Server, opens time.Time, u upgrade) {
	t.Helper()
	mails := box.Await(t, 3, patience, nil)
	ends := opens.Add(4 * time.Hour)
	until := ends.Format("15:04")
	if ends.Day() != opens.Day() {
		until = ends.Format("2006-01-02 15:04")
	}
	for i, want := range []struct{ subject, text string }{
		{"Maintenance of windows: " + opens.Format("2006-01-02 15:04") + " to " + until + " UTC", u.told("move")},
		{"Maintenance of windows has begun", u.told("move")},
		{"Maintenance of windows is done", u.told("moved")},
	} {
		m := mails[i]
		if m.EnvelopeTo != "ann@example.org" || m.Subject != want.subject || !strings.HasPrefix(m.Text, want.text) {
			t.Errorf("mail %d to %s: %s\n%s", i, m.EnvelopeTo, m.Subject, m.Text)
		}
		if i > 0 && m.Header.Get("In-Reply-To") != mails[0].MessageID() {
			t.Errorf("mail %d is of no thread", i)
		}
	}
	s.Eventually("all is recorded as sent", func() error {
		out, err := s.Command("notice", "list", "--data", s.Data, "--store", store, "--json")
		if err != nil {
			return err
		}
		var list []struct {
			Kind, State string
			Database    int64
			Window      time.Time
		}
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return err
		}
		var kinds []string
		for _, n := range list {
			kinds = append(kinds, n.Kind)
			if n.State != "sent" || n.Database == 0 || !n.Window.Equal(opens) {
				return fmt.Errorf("%+v", n)
			}
		}
		if !slices.Equal(kinds, []string{"done", "begun", "announced"}) {
			return fmt.Errorf("%v", kinds)
		}
		return nil
	})
	about := "windows, " + opens.Format("2006-01-02 15:04")
	if out, err := s.Command("notice", "list", "--data", s.Data, "--store", store); err != nil || strings.Count(out, about) != 3 {
		t.Errorf("notice list: %v\n%s", err, out)
	}
	if n := len(box.Mails()); n != 3 {
		t.Errorf("%d mails", n)
	}
}

// mustShow: the database, the account's list and the events tell of what is to come.
func mustShow(t *testing.T, s *harness.Server, d harness.Database, opens time.Time, u upgrade) {
	t.Helper()
	planned := opens.Format("2006-01-02T15:04:05")
	s.Eventually("shown", func() error {
		_, body, err := s.TryCall("GET", d.Path(), nil, nil)
		if err != nil || !strings.Contains(body, `"description":"`+u.told("move")+`","planned_for":"`+planned+`"`) {
			return fmt.Errorf("%w %s", err, body)
		}
		return nil
	})
	client := linodego.NewClient(nil)
	client.SetBaseURL(s.URL)
	client.SetAPIVersion("v4")
	client.SetToken(s.Token)
	list, err := client.ListMaintenances(t.Context(), nil)
	if err != nil || len(list) != 1 || list[0].Entity.Label != d.Label || list[0].Status != "pending" || list[0].StartTime == nil || !list[0].StartTime.Equal(opens) {
		t.Errorf("maintenance: %+v, %v", list, err)
	}
	s.Eventually("told of", func() error {
		for _, e := range eventsOf(t, s, d) {
			if string(e.Action) == "database_maintenance_scheduled" {
				return nil
			}
		}
		return fmt.Errorf("no event")
	})
	if out, err := s.Command("maintenance", "list"); err != nil || !strings.Contains(out, d.Label) || !strings.Contains(out, u.to) {
		t.Errorf("maintenance list: %v\n%s", err, out)
	}
	if out, err := s.Command("db", "view", d.Label); err != nil || !strings.Contains(out, u.to) {
		t.Errorf("db view: %v\n%s", err, out)
	}
}

func eventsOf(t *testing.T, s *harness.Server, d harness.Database) []linodego.Event {
	t.Helper()
	var list struct {
		Data []linodego.Event `json:"data"`
	}
	if _, _, err := s.TryCall("GET", "/v4/account/events", nil, &list); err != nil {
		return nil
	}
	return list.Data
}

// moved counts the nodes that run the newer build.
func moved(nodes []harness.Node, u upgrade) (n int) {
	for _, node := range nodes {
		if node.Installation == u.newer() {
			n++
		}
	}
	return n
}
