// Package gopher has what a customer does with databases, by linodego and by connections of their own: cases that are the same in each region, on whatever platform.
package gopher

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/linode/linodego"
	"golang.org/x/oauth2"

	"steward/test/harness"
)

// Client is linodego's, with the server's token.
func Client(t *testing.T, s *harness.Server) *linodego.Client {
	t.Helper()
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: s.Token})
	client := linodego.NewClient(oauth2.NewClient(t.Context(), source))
	client.SetBaseURL(s.URL)
	client.SetPollDelay(200)
	return &client
}

// Gopher makes calls and records what comes of them.
type Gopher struct {
	*linodego.Client
	T *testing.T
	// Record is told of each call, and of its problem, "" for none; it may be nil.
	Record func(call, problem string)
}

// Did records a call. got says what was got when ok is false; what builds on a failed call isn't tried.
func (g *Gopher) Did(call string, err error, ok bool, got any) {
	g.T.Helper()
	problem := ""
	switch {
	case err != nil:
		problem = err.Error()
	case !ok:
		problem = fmt.Sprintf("unexpected: %+v", got)
	}
	if g.Record != nil {
		g.Record(call, problem)
	}
	if problem != "" {
		g.T.Fatalf("%s: %s", call, problem)
	}
}

// Await waits until a database has a status.
func (g *Gopher) Await(ctx context.Context, id int, engine linodego.DatabaseEngineType, status linodego.DatabaseStatus) {
	g.T.Helper()
	g.Did("WaitForDatabaseStatus", g.WaitForDatabaseStatus(ctx, id, engine, status, 180), true, nil)
}

// Postgres takes a database of a region through all that linodego has for one; next is the major version that it is moved to, "" for none.
func (g *Gopher) Postgres(ctx context.Context, region, next string) {
	g.T.Helper()
	made, err := g.CreatePostgresDatabase(ctx, linodego.PostgresCreateOptions{
		Label: "go-pg", Region: region, Type: "g6-nanode-1", Engine: "postgresql/15", AllowList: []string{"127.0.0.1"},
		EngineConfig: &linodego.PostgresDatabaseEngineConfig{PG: &linodego.PostgresDatabaseEngineConfigPG{AutovacuumVacuumScaleFactor: new(0.25)}, SharedBuffersPercentage: new(30.5)},
	})
	g.Did("CreatePostgresDatabase", err, err == nil && made.Status == linodego.DatabaseStatusProvisioning, made)
	active := func() {
		g.T.Helper()
		g.Await(ctx, made.ID, linodego.DatabaseEngineTypePostgres, linodego.DatabaseStatusActive)
	}
	active()
	list := []string{"127.0.0.1", "10.0.0.0/8"}
	updated, err := g.UpdatePostgresDatabase(ctx, made.ID, linodego.PostgresUpdateOptions{
		Label: "go-pg-2", AllowList: &list, EngineConfig: &linodego.PostgresDatabaseEngineConfig{WorkMem: new(8), PG: &linodego.PostgresDatabaseEngineConfigPG{JIT: new(true)}},
	})
	g.Did("UpdatePostgresDatabase", err, err == nil && updated.Label == "go-pg-2" && *updated.EngineConfig.WorkMem == 8 && *updated.EngineConfig.PG.JIT &&
		*updated.EngineConfig.PG.AutovacuumVacuumScaleFactor == 0.25 && *updated.EngineConfig.SharedBuffersPercentage == 30.5, updated)
	active()
	found, err := g.ListPostgresDatabases(ctx, linodego.NewListOptions(0, `{"label": "go-pg-2"}`))
	g.Did("ListPostgresDatabases", err, len(found) == 1 && found[0].ID == made.ID && found[0].Created != nil && found[0].Hosts.Primary != "" && found[0].Port != 0 && found[0].Version == "15", found)
	one, err := g.GetPostgresDatabase(ctx, made.ID)
	g.Did("GetPostgresDatabase", err, err == nil && one.Label == "go-pg-2" && len(one.AllowList) == 2, one)
	credentials, err := g.GetPostgresDatabaseCredentials(ctx, made.ID)
	g.Did("GetPostgresDatabaseCredentials", err, err == nil && credentials.Username == "dbadmin" && credentials.Password != "", "credentials")
	ssl, err := g.GetPostgresDatabaseSSL(ctx, made.ID)
	g.Did("GetPostgresDatabaseSSL", err, err == nil && len(ssl.CACertificate) > 0, ssl)
	parameters, err := g.GetPostgresDatabaseConfig(ctx)
	g.Did("GetPostgresDatabaseConfig", err, err == nil && parameters.WorkMem.Maximum == 1024 && parameters.PG.MaxLocksPerTransaction.RequiresRestart &&
		parameters.PG.AutovacuumNaptime.Type == "integer" && parameters.PG.TrackFunctions.Enum != nil, parameters)
	g.Did("ResetPostgresDatabaseCredentials", g.ResetPostgresDatabaseCredentials(ctx, made.ID), true, nil)
	active()
	again, err := g.GetPostgresDatabaseCredentials(ctx, made.ID)
	g.Did("GetPostgresDatabaseCredentials", err, err == nil && again.Password != credentials.Password, "the password from before the reset")
	g.Did("PatchPostgresDatabase", g.PatchPostgresDatabase(ctx, made.ID), true, nil)
	active()
	if next != "" {
		// Terraform's provider waits for the end of this event, and reads the version then.
		update, err := g.NewEventPoller(ctx, made.ID, linodego.EntityDatabase, linodego.ActionDatabaseUpdate)
		if err != nil {
			g.T.Fatalf("look for events: %v", err)
		}
		moved, err := g.UpdatePostgresDatabase(ctx, made.ID, linodego.PostgresUpdateOptions{Version: next})
		g.Did("UpdatePostgresDatabase", err, err == nil, moved)
		if _, err := update.WaitForFinished(ctx, 120); err != nil {
			g.T.Errorf("wait for the update's event: %v", err)
		}
		active()
		one, err := g.GetPostgresDatabase(ctx, made.ID)
		g.Did("GetPostgresDatabase", err, err == nil && one.Version == next && *one.EngineConfig.WorkMem == 8, one)
	}
	g.Did("SuspendPostgresDatabase", g.SuspendPostgresDatabase(ctx, made.ID), true, nil)
	g.Await(ctx, made.ID, linodego.DatabaseEngineTypePostgres, linodego.DatabaseStatusSuspended)
	g.Did("ResumePostgresDatabase", g.ResumePostgresDatabase(ctx, made.ID), true, nil)
	active()
	g.Did("DeletePostgresDatabase", g.DeletePostgresDatabase(ctx, made.ID), true, nil)
	if _, err := g.GetPostgresDatabase(ctx, made.ID); !linodego.IsNotFound(err) {
		g.T.Errorf("after delete: %v, want not found", err)
	}
}

// Fork makes a database of three nodes of another one's backup, suspends, resumes and deletes it. linodego's restore_time travels under another name.
func Fork(t *testing.T, s *harness.Server, region string) {
	t.Helper()
	client := Client(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	spec := harness.Small("src", "postgresql/15")
	spec["region"] = region
	d := s.CreateActive(spec)
	first := s.Snapshot(d, "first", "primary")
	time.Sleep(time.Second) // times are shown in seconds
	s.Snapshot(d, "second", "primary")
	moment, err := time.Parse("2006-01-02T15:04:05", first.Created)
	if err != nil {
		t.Fatal(err)
	}
	asked := linodego.PostgresCreateOptions{
		Label: "by-linodego", Region: region, Type: "g6-nanode-1", Engine: "postgresql/15", ClusterSize: 3, AllowList: []string{"127.0.0.1"},
		Fork: &linodego.DatabaseFork{Source: int(d.ID), RestoreTime: &moment},
	}
	text, err := json.Marshal(asked)
	if err != nil || !strings.Contains(string(text), `"-":`) {
		t.Logf("linodego now writes %s, %v", text, err)
	}
	made, err := client.CreatePostgresDatabase(ctx, asked)
	if err != nil {
		t.Fatal(err)
	}
	await := func(status linodego.DatabaseStatus) {
		t.Helper()
		if err := client.WaitForDatabaseStatus(ctx, made.ID, linodego.DatabaseEngineTypePostgres, status, 120); err != nil {
			t.Fatal(err)
		}
	}
	await(linodego.DatabaseStatusActive)
	made, err = client.GetPostgresDatabase(ctx, made.ID)
	if err != nil || made.Fork == nil || made.Fork.Source != int(d.ID) || made.Fork.RestoreTime == nil || !made.Fork.RestoreTime.Equal(moment) {
		t.Errorf("%+v, %v", made.Fork, err)
	}
	if made.ClusterSize != 3 || len(made.Members) != 3 {
		t.Errorf("%+v", made)
	}
	if err := client.SuspendPostgresDatabase(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	await(linodego.DatabaseStatusSuspended)
	if err := client.ResumePostgresDatabase(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	await(linodego.DatabaseStatusActive)
	if err := client.DeletePostgresDatabase(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
}

// AllowList takes a database's allow list from one address to two, back and to none: it acts within the time of a request, and on open sessions. connect comes
// from an address.
func AllowList(t *testing.T, s *harness.Server, d harness.Database, connect func(ctx context.Context, source string) (*sql.DB, error)) {
	t.Helper()
	enter := func(patience time.Duration, source string) (*sql.DB, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return connect(ctx, source)
	}
	if db, err := enter(10*time.Second, "127.0.0.9"); err == nil {
		db.Close()
		t.Error("an address that isn't on the list gets in")
	}
	kept, err := enter(10*time.Second, "127.0.0.1")
	if err != nil {
		t.Fatalf("an allowed address: %v", err)
	}
	defer kept.Close()
	allow(t, s, d, "127.0.0.1", "127.0.0.8/29")
	removed, err := enter(10*time.Second, "127.0.0.9")
	if err != nil {
		t.Fatalf("a newly allowed address: %v", err)
	}
	defer removed.Close()
	allow(t, s, d, "127.0.0.1")
	if _, err := ask(t, removed, "SELECT 1"); err == nil {
		t.Error("the session of a removed address lives on")
	}
	if got, err := ask(t, kept, "SELECT 'still here'"); err != nil || got != "still here" {
		t.Errorf("the other session answered %q, %v", got, err)
	}
	allow(t, s, d)
	if db, err := enter(2*time.Second, "127.0.0.1"); err == nil {
		db.Close()
		t.Error("an empty list lets 127.0.0.1 in")
	}
}

func ask(t *testing.T, db *sql.DB, query string) (value string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err = db.QueryRowContext(ctx, query).Scan(&value)
	return value, err
}

// allow puts the list and waits until it is in force.
func allow(t *testing.T, s *harness.Server, d harness.Database, list ...string) {
	t.Helper()
	begun := time.Now()
	if list == nil { // which would be no list at all
		list = []string{}
	}
	if status, body := s.Call("PUT", d.Path(), map[string]any{"allow_list": list}, nil); status != 200 {
		t.Fatalf("PUT allow_list %v: %d %s", list, status, body)
	}
	s.AwaitStatus(d, "active")
	t.Logf("allow_list %v in force after %s", list, time.Since(begun).Round(time.Millisecond))
}
