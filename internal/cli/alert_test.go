package cli_test

import (
	"testing"
)

// TestAlertCommands: rules of one's own, defaults that are changed, and channels.
func TestAlertCommands(t *testing.T) {
	c := newTerminal(t)
	c.shows(c.run(0, "", "alert", "rules", "list"), "Disk over 80 %", "min disk_usage > 80", "60s × 2", "Contacts")
	c.shows(c.run(0, "", "alert", "channels", "create", "night shift", "--email", "ann@example.org", "--email", "bob@example.org"), "ann@example.org, bob@example.org")
	c.shows(c.run(2, "", "alert", "channels", "create", "both", "--email", "ann@example.org", "--kind", "slack"), "")
	c.shows(c.run(0, "", "alert", "rules", "create", "busy", "--when", "avg cpu_usage > 90", "--when", "max connections >= 5", "--channel", "night shift", "--severity", "low"),
		"avg cpu_usage > 90 and max connections >= 5", "night shift", "user", "low")
	c.shows(c.run(1, "", "alert", "rules", "create", "bad", "--when", "cpu > 90"), "a condition is")
	c.shows(c.run(1, "", "alert", "rules", "create", "bad", "--when", "p99 nonsense > 90"), "rule_criteria.rules.aggregate_function")
	c.shows(c.run(0, "", "alert", "rules", "set", "Disk over 80 %", "--when", "min disk_usage > 60", "--occurrences", "3", "--json"), `"threshold": 60`, `"trigger_occurrences": 3`, `"evaluation_period_seconds": 60`)
	c.shows(c.run(0, "", "alert", "rules", "disable", "busy"), "busy is disabled.")
	c.shows(c.run(0, "", "alert", "rules", "view", "busy"), "disabled")
	c.shows(c.run(1, "", "alert", "rules", "delete", "1"), "can't be deleted")
	c.shows(c.run(1, "", "alert", "channels", "test", "night shift"), "No mail server is configured")
	c.shows(c.run(0, "", "alert", "channels", "delete", "night shift"), "night shift is deleted.")
	c.shows(c.run(0, "", "alert", "rules", "delete", "busy"), "busy is deleted.")
	c.shows(c.run(0, "", "alert", "list", "--json"), "[]")
}
