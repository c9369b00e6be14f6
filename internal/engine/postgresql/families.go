package postgresql

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"steward/internal/measure"
)

// Bounds on what customers can make many of: databases, and kinds of sessions.
const (
	mostDatabases = 200
	mostSessions  = 500
)

// exported is a query whose columns postgres_exporter shows: the first few are labels, which have the columns' names,
// the others are families called by the prefix and theirs.
type exported struct {
	prefix, query string
	labels        int
	// gauges are the columns that aren't counters.
	gauges []string
	// both has each family also with _total at its end, as newer exporters call what older ones didn't.
	both bool
	// since and until are the major versions that have it; 0 is no limit.
	since, until int
	// primary and replica limit it to such nodes.
	primary, replica bool
}

var (
	ofDatabases = fmt.Sprintf(" FROM pg_stat_database WHERE datname IS NOT NULL ORDER BY datid LIMIT %d", mostDatabases)
	exports     = []exported{
		{
			prefix: "pg_stat_database_", labels: 2, gauges: []string{"numbackends", "stats_reset"},
			query: "SELECT datid, datname, numbackends, xact_commit, xact_rollback, blks_read, blks_hit, tup_returned, tup_fetched, tup_inserted, tup_updated, tup_deleted, " +
				"conflicts, temp_files, temp_bytes, deadlocks, blk_read_time, blk_write_time, coalesce(extract(epoch FROM stats_reset), 0) AS stats_reset" + ofDatabases,
		},
		{
			prefix: "pg_database_", labels: 1, gauges: []string{"size_bytes", "connection_limit"},
			query: fmt.Sprintf("SELECT datname, pg_database_size(oid) AS size_bytes, datconnlimit AS connection_limit FROM pg_database ORDER BY oid LIMIT %d", mostDatabases),
		},
		{
			prefix: "pg_stat_database_conflicts_", labels: 2,
			query: fmt.Sprintf("SELECT datid, datname, confl_tablespace, confl_lock, confl_snapshot, confl_bufferpin, confl_deadlock FROM pg_stat_database_conflicts ORDER BY datid LIMIT %d", mostDatabases),
		},
		{
			prefix: "pg_stat_activity_", labels: 5, gauges: []string{"count", "max_tx_duration"},
			query: fmt.Sprintf(`SELECT datname, state, usename, application_name, coalesce(wait_event_type, '') AS wait_event_type, count(*) AS count,
				coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) AS max_tx_duration
				FROM pg_stat_activity WHERE datname IS NOT NULL AND usename <> '%s' GROUP BY 1, 2, 3, 4, 5 ORDER BY count(*) DESC LIMIT %d`, adminRole, mostSessions),
		},
		{
			prefix: "pg_locks_", labels: 2, gauges: []string{"count"},
			query: fmt.Sprintf(`SELECT d.datname, lower(m.mode) AS mode, count(l.mode) AS count
				FROM (SELECT oid, datname FROM pg_database ORDER BY oid LIMIT %d) d
				CROSS JOIN unnest(ARRAY['AccessShareLock', 'RowShareLock', 'RowExclusiveLock', 'ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock',
					'ExclusiveLock', 'AccessExclusiveLock', 'SIReadLock']) m(mode)
				LEFT JOIN pg_lock_status() l ON l.database = d.oid AND l.mode = m.mode GROUP BY 1, 2 ORDER BY 1, 2`, mostDatabases),
		},
		{
			prefix: "pg_stat_bgwriter_", both: true, until: 16,
			query: "SELECT checkpoints_timed, checkpoints_req, checkpoint_write_time, checkpoint_sync_time, buffers_checkpoint, buffers_clean, maxwritten_clean, " +
				"buffers_backend, buffers_backend_fsync, buffers_alloc FROM pg_stat_bgwriter",
		},
		{
			prefix: "pg_stat_bgwriter_", both: true, since: 17,
			query: "SELECT buffers_clean, maxwritten_clean, buffers_alloc FROM pg_stat_bgwriter",
		},
		{
			prefix: "pg_stat_checkpointer_", both: true, since: 17,
			query: "SELECT num_timed, num_requested, restartpoints_timed, restartpoints_req, restartpoints_done, write_time, sync_time, buffers_written FROM pg_stat_checkpointer",
		},
		{
			prefix: "pg_stat_archiver_", gauges: []string{"last_archive_age"},
			query: "SELECT archived_count, failed_count, extract(epoch FROM clock_timestamp() - last_archived_time) AS last_archive_age FROM pg_stat_archiver",
		},
		{
			prefix: "pg_", gauges: []string{"postmaster_start_time_seconds", "replication_is_replica", "replication_lag", "replication_lag_seconds"},
			query: `SELECT extract(epoch FROM pg_postmaster_start_time()) AS postmaster_start_time_seconds, r.is_replica AS replication_is_replica,
				r.lag AS replication_lag, r.lag AS replication_lag_seconds
				FROM (SELECT CASE WHEN pg_is_in_recovery() THEN 1 ELSE 0 END AS is_replica, CASE
					WHEN NOT pg_is_in_recovery() OR pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
					ELSE greatest(0, extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())) END AS lag) r`,
		},
		{
			prefix: "pg_stat_replication_", labels: 2, gauges: []string{"pg_current_wal_lsn_bytes", "pg_wal_lsn_diff"}, primary: true,
			query: `SELECT application_name, state, pg_current_wal_lsn() - '0/0' AS pg_current_wal_lsn_bytes, pg_current_wal_lsn() - replay_lsn AS pg_wal_lsn_diff
				FROM pg_stat_replication ORDER BY pid`,
		},
		{
			prefix: "pg_replication_slot_", labels: 1, gauges: []string{"slot_current_wal_lsn", "slot_is_active"}, primary: true,
			query: "SELECT slot_name, pg_current_wal_lsn() - restart_lsn AS slot_current_wal_lsn, active::int AS slot_is_active FROM pg_replication_slots ORDER BY slot_name",
		},
	}
)

// settingsQuery has the settings that are numbers, in the units that postgres_exporter gives them.
const settingsQuery = `SELECT name, setting, coalesce(unit, ''), vartype FROM pg_settings WHERE vartype IN ('bool', 'integer', 'real') AND name NOT LIKE '%.%' ORDER BY name`

// factors turn a setting's unit into what its name ends in.
var factors = map[string]struct {
	suffix string
	factor float64
}{
	"B": {"_bytes", 1}, "kB": {"_bytes", 1 << 10}, "8kB": {"_bytes", 8 << 10}, "16kB": {"_bytes", 16 << 10}, "32kB": {"_bytes", 32 << 10},
	"MB": {"_bytes", 1 << 20}, "16MB": {"_bytes", 16 << 20}, "GB": {"_bytes", 1 << 30},
	"ms": {"_seconds", 1e-3}, "s": {"_seconds", 1}, "min": {"_seconds", 60}, "h": {"_seconds", 3600}, "d": {"_seconds", 86400},
}

// Families implements engine.Meter.
func (m *meter) Families(ctx context.Context) ([]measure.Family, error) {
	state, err := m.query(ctx, "SELECT pg_is_in_recovery(), current_setting('server_version'), version()")
	if err != nil {
		return nil, fmt.Errorf("read statistics: %w", err)
	}
	replica := state[0][0] == "t"
	short, _, _ := strings.Cut(state[0][1], " ")
	families := []measure.Family{
		{Name: "pg_up", Help: "Whether the server answers.", Kind: measure.KindGauge, Samples: []measure.Sample{{Value: 1}}},
		{Name: "pg_static", Help: "Version of the server.", Kind: measure.KindUntyped, Samples: []measure.Sample{
			{Labels: []string{"version", state[0][2], "short_version", short}, Value: 1},
		}},
	}
	for _, e := range exports {
		if e.primary && replica || e.replica && !replica || m.major < e.since || e.until != 0 && m.major > e.until {
			continue
		}
		found, err := m.export(ctx, e)
		if err != nil {
			return nil, fmt.Errorf("read %s statistics: %w", strings.Trim(e.prefix, "_"), err)
		}
		families = append(families, found...)
	}
	settings, err := m.query(ctx, settingsQuery)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return append(families, settingFamilies(settings)...), nil
}

func (m *meter) export(ctx context.Context, e exported) ([]measure.Family, error) {
	results, err := m.conn.Exec(ctx, e.query).ReadAll()
	if err != nil {
		return nil, classify(err)
	}
	result := results[len(results)-1]
	families := make([]measure.Family, 0, len(result.FieldDescriptions))
	for i, column := range result.FieldDescriptions {
		if i < e.labels {
			continue
		}
		f := measure.Family{Name: e.prefix + column.Name, Help: "From the server's statistics.", Kind: measure.KindCounter}
		if slices.Contains(e.gauges, column.Name) {
			f.Kind = measure.KindGauge
		}
		for _, row := range result.Rows {
			v := float(string(row[i]))
			if row[i] == nil || math.IsNaN(v) {
				continue
			}
			sample := measure.Sample{Value: v}
			for l := range e.labels {
				sample.Labels = append(sample.Labels, result.FieldDescriptions[l].Name, string(row[l]))
			}
			f.Samples = append(f.Samples, sample)
		}
		families = append(families, f)
		if e.both {
			total := f
			total.Name += "_total"
			families = append(families, total)
		}
	}
	return families, nil
}

// settingFamilies are pg_settings_…, of which each has one sample.
func settingFamilies(rows [][]string) []measure.Family {
	families := make([]measure.Family, 0, len(rows))
	for _, row := range rows {
		name, text, unit, kind := row[0], row[1], row[2], row[3]
		v, f := float(text), factors[unit]
		switch {
		case kind == "bool" && text == "on":
			v = 1
		case kind == "bool":
			v = 0
		case v > 0 || unit == "":
			v *= cmp.Or(f.factor, 1) // -1 means none, or all, whatever the unit
		}
		families = append(families, measure.Family{
			Name: "pg_settings_" + name + f.suffix, Help: "The server's setting " + name + ".", Kind: measure.KindGauge, Samples: []measure.Sample{{Value: v}},
		})
	}
	return families
}
