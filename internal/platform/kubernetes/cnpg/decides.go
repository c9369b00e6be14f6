package cnpg

import "strings"

// decided are the settings that the operator allows nobody else, beside those of recovery and of TLS.
var decided = map[string]bool{
	"allow_system_table_mods": true, "archive_cleanup_command": true, "archive_command": true, "archive_mode": true,
	"bonjour": true, "cluster_name": true, "config_file": true, "data_directory": true, "data_sync_retry": true, "event_source": true,
	"external_pid_file": true, "hba_file": true, "hot_standby": true, "ident_file": true, "jit_provider": true,
	"listen_addresses": true, "logging_collector": true, "log_destination": true, "log_directory": true, "log_file_mode": true,
	"log_filename": true, "port": true, "primary_conninfo": true, "primary_slot_name": true, "promote_trigger_file": true,
	"restart_after_crash": true, "restore_command": true, "shared_preload_libraries": true, "ssl": true, "stats_temp_directory": true,
	"synchronous_standby_names": true, "synchronized_standby_slots": true, "temp_tablespaces": true,
	// The operator reads the server's log, and makes sense of no other line.
	"log_line_prefix": true,
}

// Decides reports whether a setting is the operator's: its webhook refuses an object that has one.
func Decides(setting string) bool {
	if decided[setting] || strings.HasPrefix(setting, "unix_socket_") || strings.HasPrefix(setting, "recovery_") && setting != "recovery_init_sync_method" {
		return true
	}
	for _, prefix := range []string{"ssl_ca", "ssl_cert", "ssl_crl", "ssl_dh", "ssl_key", "ssl_passphrase", "ssl_prefer", "log_rotation_", "log_truncate_", "syslog_"} {
		if strings.HasPrefix(setting, prefix) {
			return true
		}
	}
	return false
}
