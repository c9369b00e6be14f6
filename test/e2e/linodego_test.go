package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/linode/linodego"
	"golang.org/x/oauth2"

	"steward/test/harness"
)

// TestLinodego runs an existing client of the API, unmodified, against steward.
func TestLinodego(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	client := linodegoClient(t, s)
	ctx := timeout(t, harness.Patience)

	t.Run("postgresql", func(t *testing.T) {
		created, err := client.CreatePostgresDatabase(ctx, linodego.PostgresCreateOptions{
			Label: "go-pg", Region: "local", Type: "g6-nanode-1", Engine: "postgresql/15", AllowList: []string{"127.0.0.1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := client.WaitForDatabaseStatus(ctx, created.ID, linodego.DatabaseEngineTypePostgres, linodego.DatabaseStatusActive, 60); err != nil {
			t.Fatal(err)
		}
		label, list := "go-pg-2", []string{"127.0.0.1", "10.0.0.0/8"}
		updated, err := client.UpdatePostgresDatabase(ctx, created.ID, linodego.PostgresUpdateOptions{Label: label, AllowList: &list})
		if err != nil || updated.Label != label {
			t.Fatalf("update: %+v, %v", updated, err)
		}
		if err := client.WaitForDatabaseStatus(ctx, created.ID, linodego.DatabaseEngineTypePostgres, linodego.DatabaseStatusActive, 60); err != nil {
			t.Fatal(err)
		}
		found, err := client.ListPostgresDatabases(ctx, linodego.NewListOptions(0, fmt.Sprintf(`{"label": %q}`, label)))
		if err != nil || len(found) != 1 || found[0].ID != created.ID || found[0].Created == nil {
			t.Fatalf("filtered list: %+v, %v", found, err)
		}
		if found[0].Hosts.Primary == "" || found[0].Port == 0 || found[0].Version != "15" {
			t.Errorf("hosts %+v, port %d, version %q", found[0].Hosts, found[0].Port, found[0].Version)
		}
		credentials, err := client.GetPostgresDatabaseCredentials(ctx, created.ID)
		if err != nil || credentials.Username == "" || credentials.Password == "" {
			t.Fatalf("credentials: %v", err)
		}
		if ssl, err := client.GetPostgresDatabaseSSL(ctx, created.ID); err != nil || len(ssl.CACertificate) == 0 {
			t.Fatalf("ssl: %v", err)
		}
		if err := client.ResetPostgresDatabaseCredentials(ctx, created.ID); err != nil {
			t.Fatal(err)
		}
		if err := client.WaitForDatabaseStatus(ctx, created.ID, linodego.DatabaseEngineTypePostgres, linodego.DatabaseStatusActive, 60); err != nil {
			t.Fatal(err)
		}
		if err := client.PatchPostgresDatabase(ctx, created.ID); err != nil {
			t.Fatal(err)
		}
		if err := client.WaitForDatabaseStatus(ctx, created.ID, linodego.DatabaseEngineTypePostgres, linodego.DatabaseStatusActive, 60); err != nil {
			t.Fatal(err)
		}
		postgresBackups(ctx, t, client, created.ID)
		if err := client.DeletePostgresDatabase(ctx, created.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := client.GetPostgresDatabase(ctx, created.ID); !linodego.IsNotFound(err) {
			t.Errorf("after delete: %v, want not found", err)
		}
	})

	t.Run("mysql", func(t *testing.T) {
		created, err := client.CreateMySQLDatabase(ctx, linodego.MySQLCreateOptions{
			Label: "go-maria", Region: "local", Type: "g6-nanode-1", Engine: "mysql/10.11", AllowList: []string{"127.0.0.1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := client.WaitForDatabaseStatus(ctx, created.ID, linodego.DatabaseEngineTypeMySQL, linodego.DatabaseStatusActive, 60); err != nil {
			t.Fatal(err)
		}
		window := linodego.DatabaseMaintenanceWindow{DayOfWeek: linodego.DatabaseMaintenanceDayWednesday, Duration: 1, Frequency: linodego.DatabaseMaintenanceFrequencyWeekly, HourOfDay: 8}
		updated, err := client.UpdateMySQLDatabase(ctx, created.ID, linodego.MySQLUpdateOptions{Updates: &window})
		if err != nil || updated.Updates.HourOfDay != 8 || updated.Updates.DayOfWeek != linodego.DatabaseMaintenanceDayWednesday {
			t.Fatalf("update: %+v, %v", updated, err)
		}
		if credentials, err := client.GetMySQLDatabaseCredentials(ctx, created.ID); err != nil || credentials.Password == "" {
			t.Fatalf("credentials: %v", err)
		}
		if ssl, err := client.GetMySQLDatabaseSSL(ctx, created.ID); err != nil || len(ssl.CACertificate) == 0 {
			t.Fatalf("ssl: %v", err)
		}
		all, err := client.ListDatabases(ctx, nil)
		if err != nil || len(all) != 1 || all[0].InstanceURI != fmt.Sprintf("/v4/databases/mysql/instances/%d", created.ID) {
			t.Fatalf("all databases: %+v, %v", all, err)
		}
		if err := client.ResetMySQLDatabaseCredentials(ctx, created.ID); err != nil {
			t.Fatal(err)
		}
		if err := client.WaitForDatabaseStatus(ctx, created.ID, linodego.DatabaseEngineTypeMySQL, linodego.DatabaseStatusActive, 60); err != nil {
			t.Fatal(err)
		}
		mysqlBackups(ctx, t, client, created.ID)
		if err := client.DeleteMySQLDatabase(ctx, created.ID); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("catalogue", func(t *testing.T) {
		engines, err := client.ListDatabaseEngines(ctx, nil)
		if err != nil || len(engines) < 2 {
			t.Fatalf("engines: %v, %v", engines, err)
		}
		if one, err := client.GetDatabaseEngine(ctx, nil, "postgresql/15"); err != nil || one.Version != "15" {
			t.Errorf("engine: %+v, %v", one, err)
		}
		types, err := client.ListDatabaseTypes(ctx, nil)
		if err != nil || len(types) == 0 {
			t.Fatalf("types: %v", err)
		}
		if one, err := client.GetDatabaseType(ctx, nil, types[0].ID); err != nil || one.Memory == 0 {
			t.Errorf("type: %+v, %v", one, err)
		}
		if plans, err := client.ListTypes(ctx, nil); err != nil || len(plans) != len(types) {
			t.Errorf("linode types: %d, %v", len(plans), err)
		}
		if regions, err := client.ListRegions(ctx, nil); err != nil || len(regions) == 0 {
			t.Errorf("regions: %v", err)
		}
	})

	t.Run("account", func(t *testing.T) {
		events, err := client.ListEvents(ctx, linodego.NewListOptions(0, `{"entity.type": "database"}`))
		if err != nil || len(events) == 0 {
			t.Fatalf("events: %v", err)
		}
		for _, e := range events {
			if e.PercentComplete == 100 && e.Status != linodego.EventFinished && e.Status != linodego.EventNotification {
				t.Errorf("event %s ended %s: %s", e.Action, e.Status, e.Message)
			}
		}
		if profile, err := client.GetProfile(ctx); err != nil || profile.Username != "admin" {
			t.Errorf("profile: %+v, %v", profile, err)
		}
		if users, err := client.ListUsers(ctx, nil); err != nil || len(users) != 1 {
			t.Errorf("users: %v, %v", users, err)
		}
		if tokens, err := client.ListTokens(ctx, nil); err != nil || len(tokens) != 1 {
			t.Errorf("tokens: %v, %v", tokens, err)
		}
	})
}

func linodegoClient(t *testing.T, s *harness.Server) *linodego.Client {
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: s.Token})
	client := linodego.NewClient(oauth2.NewClient(t.Context(), source))
	client.SetBaseURL(s.URL)
	client.SetPollDelay(50)
	return &client
}

// postgresBackups takes a snapshot and restores it, as older clients do: linodego's
// own service has taken backups away since.
//
//nolint:staticcheck // deprecated there, alive here
func postgresBackups(ctx context.Context, t *testing.T, client *linodego.Client, id int) {
	t.Helper()
	if err := client.CreatePostgresDatabaseBackup(ctx, id, linodego.PostgresBackupCreateOptions{Label: "kept", Target: linodego.PostgresDatabaseTargetPrimary}); err != nil {
		t.Fatal(err)
	}
	if err := client.WaitForDatabaseStatus(ctx, id, linodego.DatabaseEngineTypePostgres, linodego.DatabaseStatusActive, 120); err != nil {
		t.Fatal(err)
	}
	kept, err := client.WaitForPostgresDatabaseBackup(ctx, id, "kept", 10)
	if err != nil || kept.Type != "snapshot" || kept.Created == nil {
		t.Fatalf("backup: %+v, %v", kept, err)
	}
	if one, err := client.GetPostgresDatabaseBackup(ctx, id, kept.ID); err != nil || one.Label != kept.Label {
		t.Fatalf("backup: %+v, %v", one, err)
	}
	if err := client.RestorePostgresDatabaseBackup(ctx, id, kept.ID); err != nil {
		t.Fatal(err)
	}
	if err := client.WaitForDatabaseStatus(ctx, id, linodego.DatabaseEngineTypePostgres, linodego.DatabaseStatusActive, 120); err != nil {
		t.Fatal(err)
	}
}

//nolint:staticcheck // deprecated there, alive here
func mysqlBackups(ctx context.Context, t *testing.T, client *linodego.Client, id int) {
	t.Helper()
	if err := client.CreateMySQLDatabaseBackup(ctx, id, linodego.MySQLBackupCreateOptions{Label: "kept", Target: linodego.MySQLDatabaseTargetPrimary}); err != nil {
		t.Fatal(err)
	}
	if err := client.WaitForDatabaseStatus(ctx, id, linodego.DatabaseEngineTypeMySQL, linodego.DatabaseStatusActive, 120); err != nil {
		t.Fatal(err)
	}
	kept, err := client.WaitForMySQLDatabaseBackup(ctx, id, "kept", 10)
	if err != nil || kept.Type != "snapshot" || kept.Created == nil {
		t.Fatalf("backup: %+v, %v", kept, err)
	}
	if one, err := client.GetMySQLDatabaseBackup(ctx, id, kept.ID); err != nil || one.Label != kept.Label {
		t.Fatalf("backup: %+v, %v", one, err)
	}
	if err := client.RestoreMySQLDatabaseBackup(ctx, id, kept.ID); err != nil {
		t.Fatal(err)
	}
	if err := client.WaitForDatabaseStatus(ctx, id, linodego.DatabaseEngineTypeMySQL, linodego.DatabaseStatusActive, 120); err != nil {
		t.Fatal(err)
	}
}
