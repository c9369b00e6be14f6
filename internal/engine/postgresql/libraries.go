package postgresql

import (
	"strings"

	"steward/internal/engine"
)

// librarySettings have the server load what counts statements, and what the customer chose settings of.
func librarySettings(n engine.Node) []setting {
	var loaded []string
	if n.Installation.Loads(statementsLibrary) {
		loaded = append(loaded, statementsLibrary)
	}
	chosen := n.Config.Loads(n.Server())
	if loaded = append(loaded, chosen...); len(loaded) == 0 {
		return nil
	}
	all := append([]setting{{name: "shared_preload_libraries", value: strings.Join(loaded, ",")}}, statementSettings(n)...)
	for _, library := range chosen {
		all = append(all, settingsOf[library]...)
	}
	return all
}

// settingsOf are those of libraries that aren't the customer's to choose.
var settingsOf = map[string][]setting{
	"pg_cron": {
		// A job is a worker in the server: nothing connects to anywhere, and who it runs as is who scheduled it.
		{name: "cron.use_background_workers", value: "on"},
		{name: "cron.host", value: ""},
		{name: "cron.enable_superuser_jobs", value: "off"},
		// Parallel queries need workers, too.
		{name: "cron.max_running_jobs", value: "5"},
		{name: "cron.log_statement", value: "off"}, // customers' statements stay out of logs
		{name: "cron.log_min_messages", value: "fatal"},
	},
	"pg_partman_bgw": {
		{name: "pg_partman_bgw.role", value: customerRole},
		{name: "pg_partman_bgw.jobmon", value: "off"},
	},
	"pgaudit": {
		{name: "pgaudit.log_catalog", value: "off"}, // what clients ask by themselves
		{name: "pgaudit.log_parameter", value: "off"},
		{name: "pgaudit.log_client", value: "off"},
	},
}
