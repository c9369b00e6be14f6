package clients

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/linode/linodego"
	"golang.org/x/oauth2"

	"steward/test/harness"
)

// gopher makes linodego's calls and records what comes of them.
type gopher struct {
	*linodego.Client
	t    *testing.T
	r    *recorder
	area string
}

// did records a call. want says what was expected when ok is false; the parts of
// the test that build on a failed call end.
func (g *gopher) did(call string, err error, ok bool, got any) {
	g.t.Helper()
	problem := ""
	switch {
	case err != nil:
		problem = err.Error()
	case !ok:
		problem = fmt.Sprintf("unexpected: %+v", got)
	}
	g.r.record(goClient, g.area, call, problem)
	if problem != "" {
		g.t.Fatalf("%s: %s", call, problem)
	}
}

// linodegoCalls makes every call that linodego has for databases, and those for
// events, profile, account and catalog that steward has an answer to.
func linodegoCalls(t *testing.T, s *harness.Server, r *recorder) {
	allowApplication(t, s)
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: s.Token})
	client := linodego.NewClient(oauth2.NewClient(t.Context(), source))
	client.SetBaseURL(s.URL)
	client.SetPollDelay(50)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	t.Run("databases", func(t *testing.T) {
		for _, part := range []struct {
			area string
			run  func(context.Context, *gopher)
		}{{"databases, postgresql", postgresCalls}, {"databases, mysql", mysqlCalls}} {
			t.Run(part.area, func(t *testing.T) { t.Parallel(); part.run(ctx, &gopher{&client, t, r, part.area}) })
		}
	})
	for area, run := range map[string]func(context.Context, *gopher){"monitor": func(ctx context.Context, g *gopher) { monitorCalls(ctx, g, s) }, "catalog": catalogCalls, "events": eventCalls, "profile": profileCalls, "account": accountCalls} {
		t.Run(area, func(t *testing.T) { run(ctx, &gopher{&client, t, r, area}) })
	}
}

func (g *gopher) await(ctx context.Context, id int, engine linodego.DatabaseEngineType, status linodego.DatabaseStatus) {
	g.t.Helper()
	g.did("WaitForDatabaseStatus", g.WaitForDatabaseStatus(ctx, id, engine, status, 180), true, nil)
}

func postgresCalls(ctx context.Context, g *gopher) {
	made, err := g.CreatePostgresDatabase(ctx, linodego.PostgresCreateOptions{
		Label: "go-pg", Region: "local", Type: "g6-nanode-1", Engine: "postgresql/15", AllowList: []string{"127.0.0.1"},
		EngineConfig: &linodego.PostgresDatabaseEngineConfig{PG: &linodego.PostgresDatabaseEngineConfigPG{AutovacuumVacuumScaleFactor: new(0.25)}, SharedBuffersPercentage: new(30.5)},
	})
	g.did("CreatePostgresDatabase", err, err == nil && made.Status == linodego.DatabaseStatusProvisioning, made)
	active := func() {
		g.t.Helper()
		g.await(ctx, made.ID, linodego.DatabaseEngineTypePostgres, linodego.DatabaseStatusActive)
	}
	active()
	list := []string{"127.0.0.1", "10.0.0.0/8"}
	updated, err := g.UpdatePostgresDatabase(ctx, made.ID, linodego.PostgresUpdateOptions{
		Label: "go-pg-2", AllowList: &list, EngineConfig: &linodego.PostgresDatabaseEngineConfig{WorkMem: new(8), PG: &linodego.PostgresDatabaseEngineConfigPG{JIT: new(true)}},
	})
	g.did("UpdatePostgresDatabase", err, err == nil && updated.Label == "go-pg-2" && *updated.EngineConfig.WorkMem == 8 && *updated.EngineConfig.PG.JIT &&
		*updated.EngineConfig.PG.AutovacuumVacuumScaleFactor == 0.25 && *updated.EngineConfig.SharedBuffersPercentage == 30.5, updated)
	active()
	found, err := g.ListPostgresDatabases(ctx, linodego.NewListOptions(0, `{"label": "go-pg-2"}`))
	g.did("ListPostgresDatabases", err, len(found) == 1 && found[0].ID == made.ID && found[0].Created != nil && found[0].Hosts.Primary != "" && found[0].Port != 0 && found[0].Version == "15", found)
	one, err := g.GetPostgresDatabase(ctx, made.ID)
	g.did("GetPostgresDatabase", err, err == nil && one.Label == "go-pg-2" && len(one.AllowList) == 2, one)
	credentials, err := g.GetPostgresDatabaseCredentials(ctx, made.ID)
	g.did("GetPostgresDatabaseCredentials", err, err == nil && credentials.Username == "dbadmin" && credentials.Password != "", "credentials")
	ssl, err := g.GetPostgresDatabaseSSL(ctx, made.ID)
	g.did("GetPostgresDatabaseSSL", err, err == nil && len(ssl.CACertificate) > 0, ssl)
	parameters, err := g.GetPostgresDatabaseConfig(ctx)
	g.did("GetPostgresDatabaseConfig", err, err == nil && parameters.WorkMem.Maximum == 1024 && parameters.PG.MaxLocksPerTransaction.RequiresRestart &&
		parameters.PG.AutovacuumNaptime.Type == "integer" && parameters.PG.TrackFunctions.Enum != nil, parameters)
	g.did("ResetPostgresDatabaseCredentials", g.ResetPostgresDatabaseCredentials(ctx, made.ID), true, nil)
	active()
	again, err := g.GetPostgresDatabaseCredentials(ctx, made.ID)
	g.did("GetPostgresDatabaseCredentials", err, err == nil && again.Password != credentials.Password, "the password from before the reset")
	g.did("PatchPostgresDatabase", g.PatchPostgresDatabase(ctx, made.ID), true, nil)
	active()
	moved, err := g.UpdatePostgresDatabase(ctx, made.ID, linodego.PostgresUpdateOptions{Version: "17"})
	g.did("UpdatePostgresDatabase", err, err == nil, moved)
	active()
	one, err = g.GetPostgresDatabase(ctx, made.ID)
	g.did("GetPostgresDatabase", err, err == nil && one.Version == "17" && *one.EngineConfig.WorkMem == 8, one)
	g.did("SuspendPostgresDatabase", g.SuspendPostgresDatabase(ctx, made.ID), true, nil)
	g.await(ctx, made.ID, linodego.DatabaseEngineTypePostgres, linodego.DatabaseStatusSuspended)
	g.did("ResumePostgresDatabase", g.ResumePostgresDatabase(ctx, made.ID), true, nil)
	active()
	g.did("DeletePostgresDatabase", g.DeletePostgresDatabase(ctx, made.ID), true, nil)
	if _, err := g.GetPostgresDatabase(ctx, made.ID); !linodego.IsNotFound(err) {
		g.t.Errorf("after delete: %v, want not found", err)
	}
}

func mysqlCalls(ctx context.Context, g *gopher) {
	made, err := g.CreateMySQLDatabase(ctx, linodego.MySQLCreateOptions{
		Label: "go-maria", Region: "local", Type: "g6-nanode-1", Engine: "mysql/10", AllowList: []string{"127.0.0.1"},
		EngineConfig: &linodego.MySQLDatabaseEngineConfig{MySQL: &linodego.MySQLDatabaseEngineConfigMySQL{SQLMode: new("ANSI,TRADITIONAL")}, BinlogRetentionPeriod: new(1200)},
	})
	g.did("CreateMySQLDatabase", err, err == nil && made.Status == linodego.DatabaseStatusProvisioning, made)
	active := func() {
		g.t.Helper()
		g.await(ctx, made.ID, linodego.DatabaseEngineTypeMySQL, linodego.DatabaseStatusActive)
	}
	active()
	window := linodego.DatabaseMaintenanceWindow{DayOfWeek: linodego.DatabaseMaintenanceDayWednesday, Duration: 1, Frequency: linodego.DatabaseMaintenanceFrequencyWeekly, HourOfDay: 8}
	updated, err := g.UpdateMySQLDatabase(ctx, made.ID, linodego.MySQLUpdateOptions{Updates: &window, EngineConfig: &linodego.MySQLDatabaseEngineConfig{MySQL: &linodego.MySQLDatabaseEngineConfigMySQL{GroupConcatMaxLen: new(4096.0)}}})
	active()
	g.did("UpdateMySQLDatabase", err, err == nil && *updated.EngineConfig.MySQL.SQLMode == "ANSI,TRADITIONAL" && *updated.EngineConfig.MySQL.GroupConcatMaxLen == 4096 && *updated.EngineConfig.BinlogRetentionPeriod == 1200 && updated.Updates.HourOfDay == 8 && updated.Updates.DayOfWeek == linodego.DatabaseMaintenanceDayWednesday, updated)
	found, err := g.ListMySQLDatabases(ctx, linodego.NewListOptions(0, `{"label": "go-maria"}`))
	g.did("ListMySQLDatabases", err, len(found) == 1 && found[0].ID == made.ID && found[0].Version == "10.11", found)
	all, err := g.ListDatabases(ctx, linodego.NewListOptions(0, `{"label": "go-maria"}`))
	g.did("ListDatabases", err, len(all) == 1 && all[0].InstanceURI == fmt.Sprintf("/v4/databases/mysql/instances/%d", made.ID), all)
	one, err := g.GetMySQLDatabase(ctx, made.ID)
	g.did("GetMySQLDatabase", err, err == nil && one.Port != 0 && one.Hosts.Primary != "", one)
	credentials, err := g.GetMySQLDatabaseCredentials(ctx, made.ID)
	g.did("GetMySQLDatabaseCredentials", err, err == nil && credentials.Password != "", "credentials")
	ssl, err := g.GetMySQLDatabaseSSL(ctx, made.ID)
	g.did("GetMySQLDatabaseSSL", err, err == nil && len(ssl.CACertificate) > 0, ssl)
	parameters, err := g.GetMySQLDatabaseConfig(ctx)
	g.did("GetMySQLDatabaseConfig", err, err == nil && parameters.BinlogRetentionPeriod.Minimum == 600 && parameters.MySQL.InnoDBFTMinTokenSize.RequiresRestart && parameters.MySQL.SQLMode.Pattern != "", parameters)
	g.did("ResetMySQLDatabaseCredentials", g.ResetMySQLDatabaseCredentials(ctx, made.ID), true, nil)
	active()
	g.did("PatchMySQLDatabase", g.PatchMySQLDatabase(ctx, made.ID), true, nil)
	active()
	g.did("SuspendMySQLDatabase", g.SuspendMySQLDatabase(ctx, made.ID), true, nil)
	g.await(ctx, made.ID, linodego.DatabaseEngineTypeMySQL, linodego.DatabaseStatusSuspended)
	g.did("ResumeMySQLDatabase", g.ResumeMySQLDatabase(ctx, made.ID), true, nil)
	active()
	g.did("DeleteMySQLDatabase", g.DeleteMySQLDatabase(ctx, made.ID), true, nil)
}

func catalogCalls(ctx context.Context, g *gopher) {
	engines, err := g.ListDatabaseEngines(ctx, nil)
	g.did("ListDatabaseEngines", err, len(engines) >= 2, engines)
	engine, err := g.GetDatabaseEngine(ctx, nil, "postgresql/15")
	g.did("GetDatabaseEngine", err, err == nil && engine.Version == "15", engine)
	types, err := g.ListDatabaseTypes(ctx, nil)
	g.did("ListDatabaseTypes", err, len(types) > 0, types)
	plan, err := g.GetDatabaseType(ctx, nil, "g6-nanode-1")
	g.did("GetDatabaseType", err, err == nil && plan.Memory == 1024, plan)
	plans, err := g.ListTypes(ctx, nil)
	g.did("ListTypes", err, len(plans) == len(types), plans)
	compute, err := g.GetType(ctx, "g6-nanode-1")
	g.did("GetType", err, err == nil && compute.VCPUs == 1 && compute.Addons.Backups.Price.Hourly == 0, compute)
	regions, err := g.ListRegions(ctx, nil)
	g.did("ListRegions", err, len(regions) > 0, regions)
	region, err := g.GetRegion(ctx, "local")
	g.did("GetRegion", err, err == nil && len(region.Capabilities) > 0, region)
	everywhere, err := g.ListRegionsAvailability(ctx, nil)
	g.did("ListRegionsAvailability", err, len(everywhere) == len(types)*len(regions), everywhere)
	here, err := g.GetRegionAvailability(ctx, "local")
	g.did("GetRegionAvailability", err, err == nil && len(here) == len(types) && here[0].Available, here)
}

func eventCalls(ctx context.Context, g *gopher) {
	events, err := g.ListEvents(ctx, linodego.NewListOptions(0, `{"entity.type": "database"}`))
	g.did("ListEvents", err, len(events) > 0, events)
	for _, e := range events {
		if e.PercentComplete == 100 && e.Status != linodego.EventFinished && e.Status != linodego.EventNotification {
			g.t.Errorf("event %s ended %s: %s", e.Action, e.Status, e.Message)
		}
	}
	event, err := g.GetEvent(ctx, events[0].ID)
	g.did("GetEvent", err, err == nil && event.Action == events[0].Action, event)
	g.did("MarkEventsSeen", g.MarkEventsSeen(ctx, event), true, nil)
	g.did("MarkEventRead", g.MarkEventRead(ctx, event), true, nil) //nolint:staticcheck // deprecated there, alive here
}

func profileCalls(ctx context.Context, g *gopher) {
	profile, err := g.GetProfile(ctx)
	g.did("GetProfile", err, err == nil && profile.Username == "admin", profile)
	changed, err := g.UpdateProfile(ctx, profile.GetUpdateOptions())
	g.did("UpdateProfile", err, err == nil && changed.Email == profile.Email, changed)
	logins, err := g.ListProfileLogins(ctx, nil)
	g.did("ListProfileLogins", err, len(logins) > 0 && logins[0].Username == "admin" && logins[0].Status == "successful", logins)
	login, err := g.GetProfileLogin(ctx, logins[0].ID)
	g.did("GetProfileLogin", err, err == nil && login.IP != "" && login.Datetime != nil, login)
	kept, err := g.UpdateProfilePreferences(ctx, linodego.ProfilePreferences{"theme": "dark"})
	g.did("UpdateProfilePreferences", err, err == nil && (*kept)["theme"] == "dark", kept)
	kept, err = g.GetProfilePreferences(ctx)
	g.did("GetProfilePreferences", err, err == nil && (*kept)["theme"] == "dark", kept)
	_, err = g.GrantsList(ctx)
	g.did("GrantsList", err, true, nil)
	made, err := g.CreateToken(ctx, linodego.TokenCreateOptions{Label: "go", Scopes: "databases:read_only"})
	g.did("CreateToken", err, err == nil && len(made.Token) == 64, "a token")
	tokens, err := g.ListTokens(ctx, nil)
	g.did("ListTokens", err, len(tokens) >= 2, tokens)
	token, err := g.GetToken(ctx, made.ID)
	g.did("GetToken", err, err == nil && len(token.Token) == 16, token)
	token, err = g.UpdateToken(ctx, made.ID, linodego.TokenUpdateOptions{Label: "again"})
	g.did("UpdateToken", err, err == nil && token.Label == "again", token)
	g.did("DeleteToken", g.DeleteToken(ctx, made.ID), true, nil)
	apps, err := g.ListProfileApps(ctx, nil)
	g.did("ListProfileApps", err, len(apps) == 1, apps)
	app, err := g.GetProfileApp(ctx, apps[0].ID)
	g.did("GetProfileApp", err, err == nil && app.Scopes == "databases:read_only" && app.Expiry != nil, app)
	g.did("DeleteProfileApp", g.DeleteProfileApp(ctx, app.ID), true, nil)
}

// ownCalls are those of the account itself.
func ownCalls(ctx context.Context, g *gopher) {
	own, err := g.GetAccount(ctx)
	g.did("GetAccount", err, err == nil && own.Company != "" && own.EUUID != "" && own.ActiveSince != nil, own)
	settings, err := g.GetAccountSettings(ctx)
	g.did("GetAccountSettings", err, err == nil && settings.Managed, settings)
	offered, err := g.ListAccountAvailabilities(ctx, nil)
	g.did("ListAccountAvailabilities", err, len(offered) > 0 && len(offered[0].Available) > 0, offered)
	here, err := g.GetAccountAvailability(ctx, "local")
	g.did("GetAccountAvailability", err, err == nil && here.Region == "local", here)
	logins, err := g.ListLogins(ctx, nil)
	g.did("ListLogins", err, len(logins) > 0, logins)
	login, err := g.GetLogin(ctx, logins[0].ID)
	g.did("GetLogin", err, err == nil && login.Username == "admin" && login.Datetime != nil, login)
	_, err = g.ListNotifications(ctx, nil)
	g.did("ListNotifications", err, true, nil)
	_, err = g.ListMaintenances(ctx, nil)
	g.did("ListMaintenances", err, true, nil)
	children, err := g.ListChildAccounts(ctx, nil)
	g.did("ListChildAccounts", err, len(children) == 0, children)
}

func accountCalls(ctx context.Context, g *gopher) {
	ownCalls(ctx, g)
	const name = "gopher"
	user, err := g.CreateUser(ctx, linodego.UserCreateOptions{Username: name, Email: "go@example.org", Restricted: true})
	g.did("CreateUser", err, err == nil && user.Restricted, user)
	users, err := g.ListUsers(ctx, nil)
	g.did("ListUsers", err, len(users) == 2, users)
	user, err = g.GetUser(ctx, name)
	g.did("GetUser", err, err == nil && user.Email == "go@example.org", user)
	user, err = g.UpdateUser(ctx, name, linodego.UserUpdateOptions{Username: name, Email: "again@example.org"})
	g.did("UpdateUser", err, err == nil && user.Email == "again@example.org", user)
	grants, err := g.GetUserGrants(ctx, name)
	g.did("GetUserGrants", err, err == nil && !grants.Global.AddDatabases, grants)
	grants, err = g.UpdateUserGrants(ctx, name, linodego.UserGrantsUpdateOptions{Global: linodego.GlobalUserGrants{AddDatabases: true, AccountAccess: new(linodego.GrantPermissionLevel("read_only"))}})
	g.did("UpdateUserGrants", err, err == nil && grants.Global.AddDatabases && grants.Global.AccountAccess != nil && *grants.Global.AccountAccess == "read_only", grants)
	g.did("DeleteUser", g.DeleteUser(ctx, name), true, nil)
	made, err := g.CreateOAuthClient(ctx, linodego.OAuthClientCreateOptions{Label: "go", RedirectURI: "https://go.example.org/cb"})
	g.did("CreateOAuthClient", err, err == nil && len(made.Secret) == 64, "a client")
	clients, err := g.ListOAuthClients(ctx, nil)
	g.did("ListOAuthClients", err, len(clients) >= 1, clients)
	client, err := g.GetOAuthClient(ctx, made.ID)
	g.did("GetOAuthClient", err, err == nil && client.Status == "active" && !strings.Contains(client.Secret, made.Secret), client)
	client, err = g.UpdateOAuthClient(ctx, made.ID, linodego.OAuthClientUpdateOptions{Label: "again", RedirectURI: "https://go.example.org/cb"})
	g.did("UpdateOAuthClient", err, err == nil && client.Label == "again", client)
	client, err = g.ResetOAuthClientSecret(ctx, made.ID)
	g.did("ResetOAuthClientSecret", err, err == nil && len(client.Secret) == 64 && client.Secret != made.Secret, "a secret")
	g.did("DeleteOAuthClient", g.DeleteOAuthClient(ctx, made.ID), true, nil)
}

// monitorCalls asks for what is measured. The client of metrics is one of its own, whose version of the API is told to be this one.
func monitorCalls(ctx context.Context, g *gopher, s *harness.Server) {
	services, err := g.ListMonitorServices(ctx, nil)
	g.did("ListMonitorServices", err, len(services) == 1 && services[0].ServiceType == "dbaas", services)
	service, err := g.GetMonitorServiceByType(ctx, "dbaas")
	g.did("GetMonitorServiceByType", err, err == nil && service.Label == "Databases", service)
	definitions, err := g.ListMonitorMetricsDefinitionByServiceType(ctx, "dbaas", nil)
	g.did("ListMonitorMetricsDefinitionByServiceType", err, len(definitions) > 40 && definitions[2].Metric == "cpu_usage" &&
		definitions[2].MetricType == linodego.MetricTypeGauge && definitions[2].Unit == linodego.MetricUnitPercent && len(definitions[2].Dimensions) > 0, definitions)
	dashboards, err := g.ListMonitorDashboardsByServiceType(ctx, "dbaas", nil)
	g.did("ListMonitorDashboardsByServiceType", err, len(dashboards) == 0, dashboards)
	alertCalls(ctx, g)
	d := s.CreateActive(harness.Small("go-measured", "postgresql/15"))
	client := linodego.NewMonitorClient(nil)
	client.SetBaseURL(s.URL).SetAPIVersion("v4").SetToken(s.Token)
	var found *linodego.EntityMetrics
	s.Eventually("a database is measured", func() error {
		found, err = client.FetchEntityMetrics(ctx, "dbaas", &linodego.EntityMetricsFetchOptions{
			EntityIDs: []any{d.ID}, Metrics: []linodego.EntityMetric{{Name: "connections_max", AggregateFunction: linodego.AggregateFunctionAvg}},
			RelativeTimeDuration: &linodego.MetricRelativeTimeDuration{Unit: linodego.MetricTimeUnitHr, Value: 1},
			TimeGranularity:      []linodego.MetricTimeGranularity{{Unit: linodego.MetricTimeUnitMin, Value: 5}},
			Filters:              []linodego.MetricFilter{{DimensionLabel: "node_type", Operator: linodego.MetricFilterOperatorEq, Value: "primary"}},
		})
		if err == nil && len(found.Data.Result) == 0 {
			err = errors.New("nothing yet")
		}
		return err
	})
	result := found.Data.Result[0]
	g.did("FetchEntityMetrics", nil, found.Status == "success" && result.Metric["metric_name"] == "connections_max" && result.Metric["entity_id"] == float64(d.ID) &&
		len(result.Values) >= 1 && result.Values[0][1] != "0", found)
}

// alertCalls switches a default off, and has a definition of the account's own come and go.
func alertCalls(ctx context.Context, g *gopher) {
	channels, err := g.ListAlertChannels(ctx, nil)
	g.did("ListAlertChannels", err, len(channels) == 1 && channels[0].Type == linodego.SystemAlertChannel && channels[0].ChannelType == linodego.EmailAlertNotification, channels)
	all, err := g.ListAllMonitorAlertDefinitions(ctx, nil)
	g.did("ListAllMonitorAlertDefinitions", err, len(all) > 10 && all[0].Type == "system" && all[0].RuleCriteria.Rules[0].Metric == "disk_usage", all)
	criteria := &linodego.RuleCriteriaOptions{Rules: []linodego.RuleOptions{{
		Metric: "cpu_usage", AggregateFunction: "avg", Operator: "gt", Threshold: 90,
		DimensionFilters: []linodego.DimensionFilterOptions{{DimensionLabel: "node_type", Operator: "eq", Value: "primary"}},
	}}}
	trigger := &linodego.TriggerConditions{CriteriaCondition: "ALL", EvaluationPeriodSeconds: 300, PollingIntervalSeconds: 300, TriggerOccurrences: 1}
	made, err := g.CreateMonitorAlertDefinition(ctx, "dbaas", linodego.AlertDefinitionCreateOptions{
		Label: "go", Severity: int(linodego.SeverityMedium), ChannelIDs: []int{1}, RuleCriteria: criteria, TriggerConditions: trigger, Scope: linodego.AlertDefinitionScopeAccount, Description: new("d"),
	})
	g.did("CreateMonitorAlertDefinition", err, err == nil && made.Type == "user" && made.Status == linodego.AlertDefinitionStatusEnabled && len(made.AlertChannels) == 1 && made.Created != nil, made)
	found, err := g.GetMonitorAlertDefinition(ctx, "dbaas", made.ID)
	g.did("GetMonitorAlertDefinition", err, err == nil && found.RuleCriteria.Rules[0].Threshold == 90 && found.RuleCriteria.Rules[0].Unit == "percent", found)
	changed, err := g.UpdateMonitorAlertDefinition(ctx, "dbaas", made.ID, linodego.AlertDefinitionUpdateOptions{
		Label: "again", Severity: int(linodego.SeverityLow), Status: new(linodego.AlertDefinitionStatusDisabled),
	})
	g.did("UpdateMonitorAlertDefinition", err, err == nil && changed.Label == "again" && changed.Status == linodego.AlertDefinitionStatusDisabled && len(changed.AlertChannels) == 1, changed)
	entities, err := g.ListMonitorAlertDefinitionEntities(ctx, "dbaas", made.ID, nil)
	g.did("ListMonitorAlertDefinitionEntities", err, err == nil, entities)
	g.did("DeleteMonitorAlertDefinition", g.DeleteMonitorAlertDefinition(ctx, "dbaas", made.ID), true, nil)
	ours, err := g.ListMonitorAlertDefinitions(ctx, "dbaas", nil)
	g.did("ListMonitorAlertDefinitions", err, len(ours) == len(all), ours)
}
