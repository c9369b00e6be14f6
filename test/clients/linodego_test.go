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

	"steward/test/gopher"
	"steward/test/harness"
)

// calls makes linodego's calls and records what comes of them.
func calls(t *testing.T, client *linodego.Client, r *recorder, area string) *gopher.Gopher {
	return &gopher.Gopher{Client: client, T: t, Record: func(call, problem string) { r.record(goClient, area, call, problem) }}
}

// linodegoCalls makes every call that linodego has for databases, and those for
// events, profile, account and catalog that steward has an answer to.
func linodegoCalls(t *testing.T, s *harness.Server, r *recorder, next string) {
	allowApplication(t, s)
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: s.Token})
	client := linodego.NewClient(oauth2.NewClient(t.Context(), source))
	client.SetBaseURL(s.URL)
	client.SetPollDelay(200)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	t.Run("databases", func(t *testing.T) {
		for _, part := range []struct {
			area string
			run  func(context.Context, *gopher.Gopher)
		}{{"databases, postgresql", func(ctx context.Context, g *gopher.Gopher) { g.Postgres(ctx, "local", next) }}, {"databases, mysql", mysqlCalls}} {
			t.Run(part.area, func(t *testing.T) { t.Parallel(); part.run(ctx, calls(t, &client, r, part.area)) })
		}
	})
	for area, run := range map[string]func(context.Context, *gopher.Gopher){"monitor": func(ctx context.Context, g *gopher.Gopher) { monitorCalls(ctx, g, s) }, "catalog": catalogCalls, "events": eventCalls, "profile": profileCalls, "account": accountCalls} {
		t.Run(area, func(t *testing.T) { run(ctx, calls(t, &client, r, area)) })
	}
}

func mysqlCalls(ctx context.Context, g *gopher.Gopher) {
	made, err := g.CreateMySQLDatabase(ctx, linodego.MySQLCreateOptions{
		Label: "go-maria", Region: "local", Type: "g6-nanode-1", Engine: "mysql/10", AllowList: []string{"127.0.0.1"},
		EngineConfig: &linodego.MySQLDatabaseEngineConfig{MySQL: &linodego.MySQLDatabaseEngineConfigMySQL{SQLMode: new("ANSI,TRADITIONAL")}, BinlogRetentionPeriod: new(1200)},
	})
	g.Did("CreateMySQLDatabase", err, err == nil && made.Status == linodego.DatabaseStatusProvisioning, made)
	active := func() {
		g.T.Helper()
		g.Await(ctx, made.ID, linodego.DatabaseEngineTypeMySQL, linodego.DatabaseStatusActive)
	}
	active()
	window := linodego.DatabaseMaintenanceWindow{DayOfWeek: linodego.DatabaseMaintenanceDayWednesday, Duration: 1, Frequency: linodego.DatabaseMaintenanceFrequencyWeekly, HourOfDay: 8}
	updated, err := g.UpdateMySQLDatabase(ctx, made.ID, linodego.MySQLUpdateOptions{Updates: &window, EngineConfig: &linodego.MySQLDatabaseEngineConfig{MySQL: &linodego.MySQLDatabaseEngineConfigMySQL{GroupConcatMaxLen: new(4096.0)}}})
	active()
	g.Did("UpdateMySQLDatabase", err, err == nil && *updated.EngineConfig.MySQL.SQLMode == "ANSI,TRADITIONAL" && *updated.EngineConfig.MySQL.GroupConcatMaxLen == 4096 && *updated.EngineConfig.BinlogRetentionPeriod == 1200 && updated.Updates.HourOfDay == 8 && updated.Updates.DayOfWeek == linodego.DatabaseMaintenanceDayWednesday, updated)
	found, err := g.ListMySQLDatabases(ctx, linodego.NewListOptions(0, `{"label": "go-maria"}`))
	g.Did("ListMySQLDatabases", err, len(found) == 1 && found[0].ID == made.ID && found[0].Version == "10.11", found)
	all, err := g.ListDatabases(ctx, linodego.NewListOptions(0, `{"label": "go-maria"}`))
	g.Did("ListDatabases", err, len(all) == 1 && all[0].InstanceURI == fmt.Sprintf("/v4/databases/mysql/instances/%d", made.ID), all)
	one, err := g.GetMySQLDatabase(ctx, made.ID)
	g.Did("GetMySQLDatabase", err, err == nil && one.Port != 0 && one.Hosts.Primary != "", one)
	credentials, err := g.GetMySQLDatabaseCredentials(ctx, made.ID)
	g.Did("GetMySQLDatabaseCredentials", err, err == nil && credentials.Password != "", "credentials")
	ssl, err := g.GetMySQLDatabaseSSL(ctx, made.ID)
	g.Did("GetMySQLDatabaseSSL", err, err == nil && len(ssl.CACertificate) > 0, ssl)
	parameters, err := g.GetMySQLDatabaseConfig(ctx)
	g.Did("GetMySQLDatabaseConfig", err, err == nil && parameters.BinlogRetentionPeriod.Minimum == 600 && parameters.MySQL.InnoDBFTMinTokenSize.RequiresRestart && parameters.MySQL.SQLMode.Pattern != "", parameters)
	g.Did("ResetMySQLDatabaseCredentials", g.ResetMySQLDatabaseCredentials(ctx, made.ID), true, nil)
	active()
	g.Did("PatchMySQLDatabase", g.PatchMySQLDatabase(ctx, made.ID), true, nil)
	active()
	g.Did("SuspendMySQLDatabase", g.SuspendMySQLDatabase(ctx, made.ID), true, nil)
	g.Await(ctx, made.ID, linodego.DatabaseEngineTypeMySQL, linodego.DatabaseStatusSuspended)
	g.Did("ResumeMySQLDatabase", g.ResumeMySQLDatabase(ctx, made.ID), true, nil)
	active()
	g.Did("DeleteMySQLDatabase", g.DeleteMySQLDatabase(ctx, made.ID), true, nil)
}

func catalogCalls(ctx context.Context, g *gopher.Gopher) {
	engines, err := g.ListDatabaseEngines(ctx, nil)
	g.Did("ListDatabaseEngines", err, len(engines) >= 2, engines)
	engine, err := g.GetDatabaseEngine(ctx, nil, "postgresql/15")
	g.Did("GetDatabaseEngine", err, err == nil && engine.Version == "15", engine)
	types, err := g.ListDatabaseTypes(ctx, nil)
	g.Did("ListDatabaseTypes", err, len(types) > 0, types)
	plan, err := g.GetDatabaseType(ctx, nil, "g6-nanode-1")
	g.Did("GetDatabaseType", err, err == nil && plan.Memory == 1024, plan)
	plans, err := g.ListTypes(ctx, nil)
	g.Did("ListTypes", err, len(plans) == len(types), plans)
	compute, err := g.GetType(ctx, "g6-nanode-1")
	g.Did("GetType", err, err == nil && compute.VCPUs == 1 && compute.Addons.Backups.Price.Hourly == 0, compute)
	regions, err := g.ListRegions(ctx, nil)
	g.Did("ListRegions", err, len(regions) > 0, regions)
	region, err := g.GetRegion(ctx, "local")
	g.Did("GetRegion", err, err == nil && len(region.Capabilities) > 0, region)
	everywhere, err := g.ListRegionsAvailability(ctx, nil)
	g.Did("ListRegionsAvailability", err, len(everywhere) == len(types)*len(regions), everywhere)
	here, err := g.GetRegionAvailability(ctx, "local")
	g.Did("GetRegionAvailability", err, err == nil && len(here) == len(types) && here[0].Available, here)
}

func eventCalls(ctx context.Context, g *gopher.Gopher) {
	events, err := g.ListEvents(ctx, linodego.NewListOptions(0, `{"entity.type": "database"}`))
	g.Did("ListEvents", err, len(events) > 0, events)
	for _, e := range events {
		if e.PercentComplete == 100 && e.Status != linodego.EventFinished && e.Status != linodego.EventNotification {
			g.T.Errorf("event %s ended %s: %s", e.Action, e.Status, e.Message)
		}
	}
	event, err := g.GetEvent(ctx, events[0].ID)
	g.Did("GetEvent", err, err == nil && event.Action == events[0].Action, event)
	g.Did("MarkEventsSeen", g.MarkEventsSeen(ctx, event), true, nil)
	g.Did("MarkEventRead", g.MarkEventRead(ctx, event), true, nil) //nolint:staticcheck // deprecated there, alive here
}

func profileCalls(ctx context.Context, g *gopher.Gopher) {
	profile, err := g.GetProfile(ctx)
	g.Did("GetProfile", err, err == nil && profile.Username == "admin", profile)
	changed, err := g.UpdateProfile(ctx, profile.GetUpdateOptions())
	g.Did("UpdateProfile", err, err == nil && changed.Email == profile.Email, changed)
	logins, err := g.ListProfileLogins(ctx, nil)
	g.Did("ListProfileLogins", err, len(logins) > 0 && logins[0].Username == "admin" && logins[0].Status == "successful", logins)
	login, err := g.GetProfileLogin(ctx, logins[0].ID)
	g.Did("GetProfileLogin", err, err == nil && login.IP != "" && login.Datetime != nil, login)
	kept, err := g.UpdateProfilePreferences(ctx, linodego.ProfilePreferences{"theme": "dark"})
	g.Did("UpdateProfilePreferences", err, err == nil && (*kept)["theme"] == "dark", kept)
	kept, err = g.GetProfilePreferences(ctx)
	g.Did("GetProfilePreferences", err, err == nil && (*kept)["theme"] == "dark", kept)
	_, err = g.GrantsList(ctx)
	g.Did("GrantsList", err, true, nil)
	made, err := g.CreateToken(ctx, linodego.TokenCreateOptions{Label: "go", Scopes: "databases:read_only"})
	g.Did("CreateToken", err, err == nil && len(made.Token) == 64, "a token")
	tokens, err := g.ListTokens(ctx, nil)
	g.Did("ListTokens", err, len(tokens) >= 2, tokens)
	token, err := g.GetToken(ctx, made.ID)
	g.Did("GetToken", err, err == nil && len(token.Token) == 16, token)
	token, err = g.UpdateToken(ctx, made.ID, linodego.TokenUpdateOptions{Label: "again"})
	g.Did("UpdateToken", err, err == nil && token.Label == "again", token)
	g.Did("DeleteToken", g.DeleteToken(ctx, made.ID), true, nil)
	apps, err := g.ListProfileApps(ctx, nil)
	g.Did("ListProfileApps", err, len(apps) == 1, apps)
	app, err := g.GetProfileApp(ctx, apps[0].ID)
	g.Did("GetProfileApp", err, err == nil && app.Scopes == "databases:read_only" && app.Expiry != nil, app)
	g.Did("DeleteProfileApp", g.DeleteProfileApp(ctx, app.ID), true, nil)
}

// ownCalls are those of the account itself.
func ownCalls(ctx context.Context, g *gopher.Gopher) {
	own, err := g.GetAccount(ctx)
	g.Did("GetAccount", err, err == nil && own.Company != "" && own.EUUID != "" && own.ActiveSince != nil, own)
	settings, err := g.GetAccountSettings(ctx)
	g.Did("GetAccountSettings", err, err == nil && settings.Managed, settings)
	offered, err := g.ListAccountAvailabilities(ctx, nil)
	g.Did("ListAccountAvailabilities", err, len(offered) > 0 && len(offered[0].Available) > 0, offered)
	here, err := g.GetAccountAvailability(ctx, "local")
	g.Did("GetAccountAvailability", err, err == nil && here.Region == "local", here)
	logins, err := g.ListLogins(ctx, nil)
	g.Did("ListLogins", err, len(logins) > 0, logins)
	login, err := g.GetLogin(ctx, logins[0].ID)
	g.Did("GetLogin", err, err == nil && login.Username == "admin" && login.Datetime != nil, login)
	_, err = g.ListNotifications(ctx, nil)
	g.Did("ListNotifications", err, true, nil)
	_, err = g.ListMaintenances(ctx, nil)
	g.Did("ListMaintenances", err, true, nil)
	children, err := g.ListChildAccounts(ctx, nil)
	g.Did("ListChildAccounts", err, len(children) == 0, children)
}

func accountCalls(ctx context.Context, g *gopher.Gopher) {
	ownCalls(ctx, g)
	const name = "gopher"
	user, err := g.CreateUser(ctx, linodego.UserCreateOptions{Username: name, Email: "go@example.org", Restricted: true})
	g.Did("CreateUser", err, err == nil && user.Restricted, user)
	users, err := g.ListUsers(ctx, nil)
	g.Did("ListUsers", err, len(users) == 2, users)
	user, err = g.GetUser(ctx, name)
	g.Did("GetUser", err, err == nil && user.Email == "go@example.org", user)
	user, err = g.UpdateUser(ctx, name, linodego.UserUpdateOptions{Username: name, Email: "again@example.org"})
	g.Did("UpdateUser", err, err == nil && user.Email == "again@example.org", user)
	grants, err := g.GetUserGrants(ctx, name)
	g.Did("GetUserGrants", err, err == nil && !grants.Global.AddDatabases, grants)
	grants, err = g.UpdateUserGrants(ctx, name, linodego.UserGrantsUpdateOptions{Global: linodego.GlobalUserGrants{AddDatabases: true, AccountAccess: new(linodego.GrantPermissionLevel("read_only"))}})
	g.Did("UpdateUserGrants", err, err == nil && grants.Global.AddDatabases && grants.Global.AccountAccess != nil && *grants.Global.AccountAccess == "read_only", grants)
	g.Did("DeleteUser", g.DeleteUser(ctx, name), true, nil)
	made, err := g.CreateOAuthClient(ctx, linodego.OAuthClientCreateOptions{Label: "go", RedirectURI: "https://go.example.org/cb"})
	g.Did("CreateOAuthClient", err, err == nil && len(made.Secret) == 64, "a client")
	clients, err := g.ListOAuthClients(ctx, nil)
	g.Did("ListOAuthClients", err, len(clients) >= 1, clients)
	client, err := g.GetOAuthClient(ctx, made.ID)
	g.Did("GetOAuthClient", err, err == nil && client.Status == "active" && !strings.Contains(client.Secret, made.Secret), client)
	client, err = g.UpdateOAuthClient(ctx, made.ID, linodego.OAuthClientUpdateOptions{Label: "again", RedirectURI: "https://go.example.org/cb"})
	g.Did("UpdateOAuthClient", err, err == nil && client.Label == "again", client)
	client, err = g.ResetOAuthClientSecret(ctx, made.ID)
	g.Did("ResetOAuthClientSecret", err, err == nil && len(client.Secret) == 64 && client.Secret != made.Secret, "a secret")
	g.Did("DeleteOAuthClient", g.DeleteOAuthClient(ctx, made.ID), true, nil)
}

// monitorCalls asks for what is measured. The client of metrics is one of its own, whose version of the API is told to be this one.
func monitorCalls(ctx context.Context, g *gopher.Gopher, s *harness.Server) {
	services, err := g.ListMonitorServices(ctx, nil)
	g.Did("ListMonitorServices", err, len(services) == 1 && services[0].ServiceType == "dbaas", services)
	service, err := g.GetMonitorServiceByType(ctx, "dbaas")
	g.Did("GetMonitorServiceByType", err, err == nil && service.Label == "Databases", service)
	definitions, err := g.ListMonitorMetricsDefinitionByServiceType(ctx, "dbaas", nil)
	g.Did("ListMonitorMetricsDefinitionByServiceType", err, len(definitions) > 40 && definitions[2].Metric == "cpu_usage" &&
		definitions[2].MetricType == linodego.MetricTypeGauge && definitions[2].Unit == linodego.MetricUnitPercent && len(definitions[2].Dimensions) > 0, definitions)
	dashboards, err := g.ListMonitorDashboardsByServiceType(ctx, "dbaas", nil)
	g.Did("ListMonitorDashboardsByServiceType", err, len(dashboards) == 0, dashboards)
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
	g.Did("FetchEntityMetrics", nil, found.Status == "success" && result.Metric["metric_name"] == "connections_max" && result.Metric["entity_id"] == float64(d.ID) &&
		len(result.Values) >= 1 && result.Values[0][1] != "0", found)
}

// alertCalls switches a default off, and has a definition of the account's own come and go.
func alertCalls(ctx context.Context, g *gopher.Gopher) {
	channels, err := g.ListAlertChannels(ctx, nil)
	g.Did("ListAlertChannels", err, len(channels) == 1 && channels[0].Type == linodego.SystemAlertChannel && channels[0].ChannelType == linodego.EmailAlertNotification, channels)
	all, err := g.ListAllMonitorAlertDefinitions(ctx, nil)
	g.Did("ListAllMonitorAlertDefinitions", err, len(all) > 10 && all[0].Type == "system" && all[0].RuleCriteria.Rules[0].Metric == "disk_usage", all)
	criteria := &linodego.RuleCriteriaOptions{Rules: []linodego.RuleOptions{{
		Metric: "cpu_usage", AggregateFunction: "avg", Operator: "gt", Threshold: 90,
		DimensionFilters: []linodego.DimensionFilterOptions{{DimensionLabel: "node_type", Operator: "eq", Value: "primary"}},
	}}}
	trigger := &linodego.TriggerConditions{CriteriaCondition: "ALL", EvaluationPeriodSeconds: 300, PollingIntervalSeconds: 300, TriggerOccurrences: 1}
	made, err := g.CreateMonitorAlertDefinition(ctx, "dbaas", linodego.AlertDefinitionCreateOptions{
		Label: "go", Severity: int(linodego.SeverityMedium), ChannelIDs: []int{1}, RuleCriteria: criteria, TriggerConditions: trigger, Scope: linodego.AlertDefinitionScopeAccount, Description: new("d"),
	})
	g.Did("CreateMonitorAlertDefinition", err, err == nil && made.Type == "user" && made.Status == linodego.AlertDefinitionStatusEnabled && len(made.AlertChannels) == 1 && made.Created != nil, made)
	found, err := g.GetMonitorAlertDefinition(ctx, "dbaas", made.ID)
	g.Did("GetMonitorAlertDefinition", err, err == nil && found.RuleCriteria.Rules[0].Threshold == 90 && found.RuleCriteria.Rules[0].Unit == "percent", found)
	changed, err := g.UpdateMonitorAlertDefinition(ctx, "dbaas", made.ID, linodego.AlertDefinitionUpdateOptions{
		Label: "again", Severity: int(linodego.SeverityLow), Status: new(linodego.AlertDefinitionStatusDisabled),
	})
	g.Did("UpdateMonitorAlertDefinition", err, err == nil && changed.Label == "again" && changed.Status == linodego.AlertDefinitionStatusDisabled && len(changed.AlertChannels) == 1, changed)
	entities, err := g.ListMonitorAlertDefinitionEntities(ctx, "dbaas", made.ID, nil)
	g.Did("ListMonitorAlertDefinitionEntities", err, err == nil, entities)
	g.Did("DeleteMonitorAlertDefinition", g.DeleteMonitorAlertDefinition(ctx, "dbaas", made.ID), true, nil)
	ours, err := g.ListMonitorAlertDefinitions(ctx, "dbaas", nil)
	g.Did("ListMonitorAlertDefinitions", err, len(ours) == len(all), ours)
}
