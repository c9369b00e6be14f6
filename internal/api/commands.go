package api

import (
	"maps"
	"strconv"
	"strings"

	"steward/internal/filter"
	"steward/internal/store"
)

// commands says, by operation, what a command-line client that is generated from
// the document calls it: a command and an action, as the vendor's does where it
// has the operation. "" leaves it out.
var commands = withEngines(map[string]string{
	"viewAccount": "account view", "viewAccountSettings": "account settings",
	"listAvailability": "account get-availability", "viewAvailability": "account get-account-availability",
	"listUsage": "account usage-list", "listAudit": "account audit-list", "listAccountLogins": "account logins-list", "viewAccountLogin": "account login-view",
	"listMaintenance": "account maintenance-list", "listNotifications": "account notifications-list",
	"listChildAccounts": "child-account list",
	"listClients":       "account clients-list", "createClient": "account client-create", "viewClient": "account client-view",
	"updateClient": "account client-update", "deleteClient": "account client-delete", "resetClientSecret": "account client-reset-secret",
	"resetClientSecretAlias": "",

	"listEvents": "events list", "viewEvent": "events view", "readEvent": "events mark-read", "seenEvent": "events mark-seen",

	"listUsers": "users list", "createUser": "users create", "viewUser": "users view", "updateUser": "users update", "deleteUser": "users delete",
	"viewUserGrants": "users grants", "updateUserGrants": "users grants-update",

	"viewProfile": "profile view", "updateProfile": "profile update", "viewProfileGrants": "profile grants",
	"listApps": "profile apps-list", "viewApp": "profile app-view", "deleteApp": "profile app-delete",
	"listProfileLogins": "profile logins-list", "viewProfileLogin": "profile login-view",
	"listTokens": "profile tokens-list", "createToken": "profile token-create", "viewToken": "profile token-view",
	"updateToken": "profile token-update", "deleteToken": "profile token-delete",
	"startSecondFactor": "profile tfa-enable", "confirmSecondFactor": "profile tfa-confirm", "disableSecondFactor": "profile tfa-disable",
	"viewPreferences": "", "updatePreferences": "", // any members at all: nothing to make options or columns of

	"getDatabasesInstances": "databases list", "listDatabaseEngines": "databases engines", "viewDatabaseEngine": "databases engine-view",
	"listDatabaseTypes": "databases types", "viewDatabaseType": "databases type-view",
	"listOfferedExtensions": "databases postgresql-extensions-offered", "listExtensions": "databases postgresql-extensions-list", "createExtension": "databases postgresql-extension-create",
	"updateExtension": "databases postgresql-extension-update", "deleteExtension": "databases postgresql-extension-delete",
	"viewMySQLConfig": "databases mysql-config-view", "viewPostgreSQLConfig": "databases postgres-config-view",
	"listLinodeTypes": "linodes types", "viewLinodeType": "linodes type-view",
	"listRegions": "regions list", "viewRegion": "regions view",
	"listRegionsAvailability": "regions list-avail", "viewRegionAvailability": "regions view-avail",

	"listContacts": "managed contacts-list", "createContact": "managed contact-create", "viewContact": "managed contact-view",
	"updateContact": "managed contact-update", "deleteContact": "managed contact-delete",
	"listCredentials": "managed credentials-list", "createCredential": "managed credential-create", "viewCredential": "managed credential-view",
	"updateCredential": "managed credential-update", "deleteCredential": "managed credential-delete",
	"updateCredentialLogin": "managed credential-update-username-password", "revokeCredential": "managed credential-revoke",
	"viewSSHKey": "managed credential-sshkey-view",
	"listIssues": "managed issues-list", "viewIssue": "managed issue-view",
	"listComputeSettings": "managed compute-settings-list", "viewComputeSettings": "managed compute-setting-view", "updateComputeSettings": "managed compute-setting-update",
	"listLinodeSettings": "managed linode-settings-list", "viewLinodeSettings": "managed linode-setting-view", "updateLinodeSettings": "managed linode-setting-update",
	"listServices": "managed services-list", "createService": "managed service-create", "viewService": "managed service-view",
	"updateService": "managed service-update", "deleteService": "managed service-delete",
	"enableService": "managed service-enable", "disableService": "managed service-disable", "listServiceChecks": "managed service-checks-list", "checkService": "managed service-check",
	"listStatusPages": "managed status-pages-list", "createStatusPage": "managed status-page-create", "viewStatusPage": "managed status-page-view",
	"updateStatusPage": "managed status-page-update", "deleteStatusPage": "managed status-page-delete",
	"viewStats": "managed stats-list",

	"listMonitorServices": "monitor service-list", "viewMonitorService": "monitor service-view", "listMetricDefinitions": "monitor metrics-list",
	"fetchMetrics": "", "createMetricsToken": "", "discoverDatabases": "", // answers of which no table can be made
	"listMonitorDashboards":   "monitor dashboards-list",
	"listAllAlertDefinitions": "alerts definitions-list-all", "listAlertDefinitions": "alerts definitions-list", "createAlertDefinition": "alerts definition-create",
	"viewAlertDefinition": "alerts definition-view", "updateAlertDefinition": "alerts definition-update", "deleteAlertDefinition": "alerts definition-delete",
	"listAlertDefinitionEntities": "alerts definition-entities-list",
	"listAlertChannels":           "alerts channels-list", "createAlertChannel": "alerts channel-create", "viewAlertChannel": "alerts channel-view",
	"updateAlertChannel": "alerts channel-update", "deleteAlertChannel": "alerts channel-delete", "testAlertChannel": "alerts channel-test",
	"listAlertsOfChannel": "alerts channel-alerts-list",

	"listTickets": "tickets list", "viewTicket": "tickets view", "listTicketReplies": "tickets replies", "createTicketReply": "tickets reply", "updateTicketReply": "tickets reply-update",
})

// withEngines adds the operations that each engine has.
func withEngines(all map[string]string) map[string]string {
	for operation, action := range map[string]string{
		"list%Database": "list", "create%Database": "create", "view%Database": "view", "update%Database": "update", "delete%Database": "delete",
		"list%Backups": "backups-list", "create%Snapshot": "backup-snapshot", "view%Backup": "backup-view", "delete%Backup": "backup-delete",
		"restore%Backup": "backup-restore", "viewCredentialsOf%Database": "creds-view", "resetCredentialsOf%Database": "creds-reset",
		"listTablesOf%Database": "tables-list",
		"restore%Database":      "restore", "undoRestoreOf%Database": "restore-undo",
		"listLogicalOf%Database": "logical-list", "createLogicalOf%Database": "logical-create", "viewLogicalOf%Database": "logical-view", "deleteLogicalOf%Database": "logical-delete",
		"listUsersOf%Database": "users-list", "createUserOf%Database": "user-create", "viewUserOf%Database": "user-view", "updateUserOf%Database": "user-update",
		"deleteUserOf%Database": "user-delete", "resetUserOf%Database": "user-creds-reset",
		"viewCertificateOf%Database": "ssl-cert", "patch%Database": "patch", "suspend%Database": "suspend", "resume%Database": "resume",
	} {
		for _, engine := range []string{"MySQL", "PostgreSQL"} {
			all[strings.Replace(operation, "%", engine, 1)] = "databases " + strings.ToLower(engine) + "-" + action
		}
	}
	return all
}

// table is how a generated client shows a schema: its columns, from left to right,
// and the members that lists of it can be filtered by.
type table struct {
	columns []string
	fields  filter.Fields
	// within is true of objects in other objects, whose columns come last.
	within bool
}

// columnsWithin is the first column's place of an object within another.
const columnsWithin = 101

// tables are by the schema's name in the document.
var tables = map[string]table{
	"AccountView":      {columns: []string{"company", "email", "euuid", "active_since"}, fields: filter.Fields{"company": filter.Text, "euuid": filter.Text}},
	"AlertEntityView":  {columns: []string{"id", "label", "type"}, fields: alertEntityFields},
	"AlertView":        {columns: []string{"id", "label", "severity", "type", "status", "scope"}, fields: alertFields},
	"AnyDatabaseView":  {columns: databaseColumns, fields: store.ClusterFields},
	"AppView":          {columns: []string{"id", "label", "scopes", "website", "created", "expiry"}, fields: store.AppFields},
	"AvailabilityView": {columns: []string{"region", "plan", "available"}, fields: filter.Fields{"region": filter.Text, "plan": filter.Text, "available": filter.Bool}},
	"BackupView":       {columns: []string{"id", "label", "type", "state", "created", "verified"}, fields: store.BackupFields},
	"CatalogView":      {columns: []string{"name", "engine", "version", "parameter", "missing"}, fields: catalogFields},
	"ChannelView":      {columns: []string{"id", "label", "channel_type", "type"}, fields: channelFields},
	"CheckView":        {columns: []string{"started", "result", "response_time"}, fields: checkFields},
	"ClientView":       {columns: []string{"id", "label", "status", "public", "redirect_uri", "secret"}, fields: store.ClientFields},
	"ComputeTypeView":  planTable,
	"ComputeView":      {columns: []string{"id", "label", "group"}, fields: store.MachineFields},
	"ContactView":      {columns: []string{"id", "name", "email", "group"}, fields: store.ContactFields},
	"CredentialView":   {columns: []string{"id", "label", "last_decrypted"}, fields: store.CredentialFields},
	"CredentialsView":  {columns: []string{"username", "password"}},
	"DatabaseView":     {columns: databaseColumns, fields: store.ClusterFields},
	"DefinitionView":   {columns: []string{"metric", "label", "metric_type", "unit", "scrape_interval"}, fields: definitionFields},
	"EngineView":       {columns: []string{"id", "engine", "version"}, fields: filter.Fields{"id": filter.Text, "engine": filter.Text, "version": filter.Text}},
	"EntityView":       {columns: []string{"label"}, within: true},
	"EventView":        {columns: []string{"id", "created", "username", "action", "status", "percent_complete", "message"}, fields: store.EventFields},
	"GlobalGrants":     {columns: []string{"account_access", "add_databases"}, within: true},
	"IssueView":        {columns: []string{"id", "created", "closed", "services"}, fields: store.IssueFields},
	"MadeChannelView":  {columns: []string{"id", "label", "channel_type", "type", "secret"}},
	"ExtensionView":    {columns: []string{"name", "version", "installed_version", "schema"}, fields: extensionFields},
	"LogicalView":      {columns: []string{"name", "owner", "encoding", "collation"}, fields: logicalFields},
	"LoginUserView":    {columns: []string{"username"}, fields: loginUserFields},
	"MadeUserView":     {columns: []string{"username", "password"}},
	"UserPasswordView": {columns: []string{"username", "password"}},
	"AuditView":        {columns: []string{"datetime", "username", "ip", "action", "path", "status"}, fields: store.TrailFields},
	"LoginView":        {columns: []string{"id", "datetime", "username", "ip", "status"}, fields: store.LoginFields},
	"MaintenanceView": {
		columns: []string{"type", "status", "when", "complete_time", "reason"},
		fields:  filter.Fields{"type": filter.Text, "status": filter.Text, "reason": filter.Text, "when": filter.Time},
	},
	"MonitorServiceView": {columns: []string{"label", "service_type"}, fields: filter.Fields{"label": filter.Text, "service_type": filter.Text}},
	"NotificationView": {
		columns: []string{"type", "severity", "when", "message"},
		fields:  filter.Fields{"type": filter.Text, "severity": filter.Text, "label": filter.Text, "message": filter.Text, "when": filter.Time},
	},
	"OfferedView": {columns: []string{"region", "available"}, fields: filter.Fields{"region": filter.Text}},
	"PhoneView":   {columns: []string{"primary", "secondary"}, within: true},
	"ProfileView": {columns: []string{"uid", "username", "email", "restricted"}},
	"RegionView": {
		columns: []string{"id", "label", "country", "capabilities", "status"},
		fields:  filter.Fields{"id": filter.Text, "label": filter.Text, "country": filter.Text, "status": filter.Text},
	},
	"FactorView":     {columns: []string{"secret", "expiry", "url"}},
	"ScratchView":    {columns: []string{"scratch", "recovery_codes"}},
	"StatusPageView": {columns: []string{"id", "slug", "title", "services", "databases", "days"}, fields: store.StatusPageFields},
	"ReplyView":      {columns: []string{"id", "created", "created_by", "kind", "public", "description"}, fields: store.ReplyFields},
	"ServiceView":    {columns: []string{"id", "status", "service_type", "label", "address", "consultation_group"}, fields: store.ServiceFields},
	"SettingsView":   {columns: []string{"managed", "backups_enabled", "object_storage"}},
	"SshKeyView":     {columns: []string{"ssh_key"}},
	"SshView":        {columns: []string{"access", "user", "ip", "port"}, within: true},
	"SslView":        {columns: []string{"ca_certificate"}},
	"TableView":      {columns: []string{"database", "schema", "table", "index", "size_bytes", "rows"}, fields: tableFields},
	"TellingView":    {columns: []string{"id", "about", "kind", "channel", "recipient", "state", "attempts", "problem"}, fields: tellingFields},
	"TenantView":     {columns: []string{"name", "status", "users", "created"}, fields: tenantFields},
	"OfferedRegion":  {columns: []string{"id", "label", "platform", "away"}, fields: offeredFields},
	"ProcessView":    {columns: []string{"database", "label", "account", "node", "role", "server", "running", "problem"}, fields: processFields},
	"TicketView":     {columns: []string{"id", "status", "opened", "updated", "closed", "summary"}, fields: store.TicketFields},
	"TokenView":      {columns: []string{"id", "label", "scopes", "created", "expiry", "token"}, fields: store.TokenFields},
	"TriedView":      {columns: []string{"delivered", "problem"}},
	"TypeView":       planTable,
	"UsageView":      {columns: []string{"day", "database_id", "label", "engine", "type", "cluster_size", "hours", "suspended_hours", "cost"}, fields: store.UsageFields},
	"UserView":       {columns: []string{"username", "email", "restricted"}, fields: store.UserFields},
}

var (
	databaseColumns = []string{"id", "label", "region", "type", "cluster_size", "engine", "version", "port", "status"}
	planTable       = table{columns: []string{"id", "label", "class", "vcpus", "memory", "disk"}, fields: filter.Fields{
		"id": filter.Text, "label": filter.Text, "class": filter.Text, "memory": filter.Number, "disk": filter.Number, "vcpus": filter.Number,
		"deprecated": filter.Bool,
	}}
)

// statsRows shows the points of a graph's five series as rows of one table: the
// generator makes one of each point, with the series' name as _split.
var statsRows = map[string]any{
	"x-linode-cli-nested-list": "data.cpu,data.disk,data.net_in,data.net_out,data.swap",
	"x-linode-cli-use-schema": map[string]any{"type": "object", "properties": map[string]any{
		"_split": map[string]any{"type": "string", "x-linode-cli-display": 1},
		"data": map[string]any{"type": "object", "properties": map[string]any{
			"x": map[string]any{"type": "integer", "x-linode-cli-display": 2},
			"y": map[string]any{"type": "number", "x-linode-cli-display": 3},
		}},
	}},
}

// addCommands writes into the document, in the form of 3.0, what generators of
// command-line clients look for and the standard has no word for.
func addCommands(document map[string]any) {
	for _, item := range object(document, "paths") {
		for _, operation := range item.(map[string]any) {
			addCommand(item.(map[string]any), operation)
		}
	}
	schemas := object(document, "components", "schemas")
	for name, t := range tables {
		properties := object(schemas, name, "properties")
		first := 1
		if t.within {
			first = columnsWithin
		}
		for i, column := range t.columns {
			object(properties, column)["x-linode-cli-display"] = first + i
		}
		for field := range t.fields {
			if !strings.Contains(field, ".") {
				object(properties, field)["x-linode-filterable"] = true
			}
		}
	}
	object(schemas, "Fork", "properties", "-")["x-linode-cli-skip"] = true
}

// addCommand names one operation of a path. Generators want the command's name on
// the path, and the action's on the operation.
func addCommand(path map[string]any, operation any) {
	op, ok := operation.(map[string]any)
	if !ok || op["operationId"] == nil {
		return // what all operations of the path share
	}
	id, _ := op["operationId"].(string)
	command, action, named := strings.Cut(commands[id], " ")
	if !named {
		op["x-linode-cli-skip"] = true
		return
	}
	path["x-linode-cli-command"], op["x-linode-cli-action"] = command, action
	if id != "viewStats" {
		return
	}
	maps.Copy(object(op, "responses", strconv.Itoa(200), "content", "application/json"), statsRows)
}

// object is the object within another at a path of members; what isn't there is an
// empty one that belongs nowhere.
func object(within map[string]any, path ...string) map[string]any {
	for _, member := range path {
		inner, ok := within[member].(map[string]any)
		if !ok {
			return map[string]any{}
		}
		within = inner
	}
	return within
}
