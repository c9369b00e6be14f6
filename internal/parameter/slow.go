package parameter

import "time"

// The parameters by which statements that take long are logged.
const (
	slowOfPostgreSQL = "pg.log_min_duration_statement"
	slowOn           = "mysql.slow_query_log"
	slowOfMySQL      = "mysql.long_query_time"
)

// longUnlessChosen is the server's own threshold.
const longUnlessChosen = 10 * time.Second

// SlowThreshold is how long statements take before they are logged; false when none are.
func (c Config) SlowThreshold(family string) (time.Duration, bool) {
	if family == string(PostgreSQL) {
		ms, chosen := c[slowOfPostgreSQL].(int64)
		return time.Duration(ms) * time.Millisecond, chosen && ms >= 0
	}
	threshold := longUnlessChosen
	switch seconds := c[slowOfMySQL].(type) {
	case int64:
		threshold = time.Duration(seconds) * time.Second
	case float64:
		threshold = time.Duration(seconds * float64(time.Second))
	}
	return threshold, c[slowOn] == true
}

// HowToLogSlow tells customers how to have statements logged that take long.
func HowToLogSlow(family string) string {
	const begin = "Statements that take long aren't logged: set engine_config."
	if family == string(PostgreSQL) {
		return begin + slowOfPostgreSQL + " to milliseconds."
	}
	return begin + slowOn + " to true, and " + slowOfMySQL + " to seconds."
}
