package mysql

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"steward/internal/engine"
	"steward/internal/measure"
)

// meter implements engine.Meter.
type meter struct {
	d *Driver
	n engine.Node
	f flavour
	// s is nil while the meter rests.
	s        *session
	counters counters
	// status is the question for them.
	status string
	// confirming is the name of the number of replicas that confirm commits; "" where nothing waits for them.
	confirming string
	// connected is how many connections there were at the last look, this one included.
	connected float64
	// file and position are where the server's own log was then; "" where that is asked for by itself.
	file, position string
	// logBytes is how large a binary log gets.
	logBytes float64
}

// OpenMeter implements engine.Metered. The connection is one of ownConnections.
func (d *Driver) OpenMeter(ctx context.Context, n engine.Node) (engine.Meter, error) {
	m := &meter{d: d, n: n, f: flavourOf(n.Installation.Flavour), counters: countersOf(n.Installation.Flavour), confirming: confirmingOf(n)}
	m.status = m.query()
	err := m.connect(ctx)
	if err == nil {
		var text string
		text, err = m.s.text(ctx, "SELECT @@GLOBAL.max_binlog_size")
		m.logBytes = float(text)
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("open meter: %w", err)
	}
	return m, nil
}

// connect connects, unless the meter is connected.
func (m *meter) connect(ctx context.Context) error {
	if m.s != nil {
		return nil
	}
	s, err := m.d.admin(ctx, m.n)
	if err != nil {
		return err
	}
	// Nobody but us ends what hangs; the server lets go of what we ask for by itself.
	limit := "max_execution_time = 5000"
	if m.n.Installation.Flavour == engine.FlavourMariaDB {
		limit = "max_statement_time = 5"
	}
	if err := s.exec(ctx, "SET SESSION "+limit+", SESSION lock_wait_timeout = 1"); err != nil {
		s.close()
		return err
	}
	m.s = s
	return nil
}

// Close implements engine.Meter.
func (m *meter) Close() { m.Rest() }

// Rest implements engine.Meter.
func (m *meter) Rest() {
	if m.s != nil {
		m.s.close()
		m.s = nil
	}
}

// counters are the server's by their names; several of one metric are added up.
type counters map[string]measure.Metric

// commonCounters are those of both flavours. MariaDB no longer counts InnoDB's rows, but all engines'.
var (
	commonCounters = counters{
		"Com_commit": measure.Commits, "Com_rollback": measure.Rollbacks,
		"Questions": measure.Queries, "Com_select": measure.Selects,
		"Com_insert": measure.Inserts, "Com_insert_select": measure.Inserts, "Com_replace": measure.Inserts, "Com_replace_select": measure.Inserts,
		"Com_update": measure.Updates, "Com_update_multi": measure.Updates,
		"Com_delete": measure.Deletes, "Com_delete_multi": measure.Deletes,
		"Created_tmp_disk_tables": measure.TemporaryFiles,
	}
	mariaDBCounters = counters{
		"Rows_read": measure.RowsRead, "Handler_write": measure.RowsInserted, "Handler_update": measure.RowsUpdated, "Handler_delete": measure.RowsDeleted,
		"Innodb_deadlocks": measure.Deadlocks,
	}
	mySQLCounters = counters{
		"Innodb_rows_read": measure.RowsRead, "Innodb_rows_inserted": measure.RowsInserted,
		"Innodb_rows_updated": measure.RowsUpdated, "Innodb_rows_deleted": measure.RowsDeleted,
	}
)

func countersOf(f engine.Flavour) counters {
	all := maps.Clone(commonCounters)
	if f == engine.FlavourMariaDB {
		maps.Copy(all, mariaDBCounters)
	} else {
		maps.Copy(all, mySQLCounters)
	}
	return all
}

const (
	poolRequests = "Innodb_buffer_pool_read_requests"
	poolReads    = "Innodb_buffer_pool_reads"
	threads      = "Threads_connected"
	// Where its log is, MariaDB tells among the others: of a session without a snapshot it is where it is now.
	logFile     = "Binlog_snapshot_file"
	logPosition = "Binlog_snapshot_position"
)

// confirmingOf is what the server calls the number of replicas that confirm commits.
func confirmingOf(n engine.Node) string {
	switch {
	case !semiSync(n) || isReplica(n):
		return ""
	case n.Installation.Flavour == engine.FlavourMariaDB:
		return "Rpl_semi_sync_master_clients"
	}
	return "Rpl_semi_sync_source_clients"
}

// query asks for no more than what is looked at: to write all of them takes the server longer.
func (m *meter) query() string {
	names := []string{quote(poolRequests), quote(poolReads), quote(threads)}
	if m.n.Installation.Flavour == engine.FlavourMariaDB {
		names = append(names, quote(logFile), quote(logPosition))
	}
	if m.confirming != "" {
		names = append(names, quote(m.confirming))
	}
	for _, name := range slices.Sorted(maps.Keys(m.counters)) {
		names = append(names, quote(name))
	}
	return "SHOW GLOBAL STATUS WHERE Variable_name IN (" + strings.Join(names, ", ") + ")"
}

// deadlocksQuery asks MySQL, which doesn't have them among the others.
const deadlocksQuery = "SELECT CAST(`COUNT` AS CHAR) FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'"

// countSessionsQuery counts the sessions of customers. Transactions are InnoDB's.
const countSessionsQuery = `SELECT COUNT(*), COALESCE(SUM(p.COMMAND <> 'Sleep'), 0), COALESCE(SUM(p.COMMAND = 'Sleep' AND t.trx_mysql_thread_id IS NULL), 0),
	COALESCE(SUM(p.COMMAND = 'Sleep' AND t.trx_mysql_thread_id IS NOT NULL), 0),
	COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, t.trx_started, NOW(6))) / 1e6, 0), COALESCE(MAX(CASE WHEN p.COMMAND IN ('Query', 'Execute') THEN p.TIME END), 0),
	COALESCE(SUM(t.trx_state = 'LOCK WAIT' OR p.STATE LIKE 'Waiting for % lock'), 0)
FROM information_schema.PROCESSLIST p LEFT JOIN information_schema.INNODB_TRX t ON t.trx_mysql_thread_id = p.ID
WHERE p.COMMAND NOT IN ('Daemon', 'Binlog Dump', 'Binlog Dump GTID', 'Slave_IO', 'Slave_SQL', 'Slave_worker', 'Connect')
	AND p.USER NOT IN ('` + adminUser + `', '` + replicaUser + `', 'system user', 'event_scheduler', 'unauthenticated user')`

// Measure implements engine.Meter.
func (m *meter) Measure(ctx context.Context, r *measure.Reading) (engine.LogPosition, error) {
	position := engine.LogPosition{Written: math.NaN(), Applied: math.NaN()}
	if err := m.connect(ctx); err != nil {
		return position, fmt.Errorf("connect: %w", err)
	}
	if err := m.measureStatus(ctx, r); err != nil {
		return position, fmt.Errorf("read statistics: %w", err)
	}
	rows := [][]string{{"0", "0", "0", "0", "0", "0", "0"}}
	if m.connected > 1 { // besides this one: to look at sessions costs the server more than all else
		var err error
		if rows, err = m.s.rows(ctx, countSessionsQuery); err != nil {
			return position, fmt.Errorf("count sessions: %w", err)
		}
	}
	for i, metric := range []measure.Metric{
		measure.Connections, measure.ConnectionsActive, measure.ConnectionsIdle, measure.ConnectionsInTransaction, measure.LongestTransaction, measure.LongestQuery,
		measure.LocksWaiting,
	} {
		r.Set(metric, max(0, float(rows[0][i])))
	}
	r.Set(measure.ConnectionsMax, float64(tune(m.n.Plan).connections))
	position, err := m.measureLog(ctx, r)
	if err != nil {
		return position, fmt.Errorf("read the log's position: %w", err)
	}
	r.Set(measure.Up, 1)
	return position, nil
}

func (m *meter) measureStatus(ctx context.Context, r *measure.Reading) error {
	rows, err := m.s.rows(ctx, m.status)
	if err != nil {
		return err
	}
	for _, row := range rows {
		v := float(row[1])
		switch metric := m.counters[row[0]]; {
		case row[0] == poolRequests:
			r.Hits = v
		case row[0] == poolReads:
			r.Misses = v
		case row[0] == threads:
			m.connected = v
		case row[0] == logFile:
			m.file = row[1]
		case row[0] == logPosition:
			m.position = row[1]
		case row[0] == m.confirming:
			r.Set(measure.ConfirmingReplicas, v)
		case metric != 0 && math.IsNaN(r.Values[metric]):
			r.Set(metric, v)
		case metric != 0:
			r.Set(metric, r.Values[metric]+v)
		}
	}
	r.Hits -= r.Misses
	if m.n.Installation.Flavour == engine.FlavourMariaDB {
		return nil
	}
	deadlocks, err := m.s.text(ctx, deadlocksQuery)
	r.Set(measure.Deadlocks, float(deadlocks))
	return err
}

// measureLog tells the primary by its having no source.
func (m *meter) measureLog(ctx context.Context, r *measure.Reading) (engine.LogPosition, error) {
	at := engine.LogPosition{Written: math.NaN(), Applied: math.NaN()}
	var st status
	if clustered(m.n) {
		var err error
		if st, err = m.s.status(ctx, m.f); err != nil {
			return at, err
		}
	}
	if m.n.Installation.Flavour != engine.FlavourMariaDB {
		mine, err := m.s.record(ctx, "SHOW BINARY LOG STATUS")
		if err != nil {
			return at, err
		}
		m.file, m.position = mine["File"], mine["Position"]
	}
	mine := m.bytesBefore(m.file, m.position)
	r.Set(measure.LogBytes, mine)
	if st == nil {
		r.Set(measure.Primary, 1)
		at.Written, at.Applied = mine, mine
		return at, nil
	}
	r.Set(measure.Primary, 0)
	at.Written = m.bytesBefore(st["Source_Log_File"], st["Read_Source_Log_Pos"])
	at.Applied = m.bytesBefore(st["Relay_Source_Log_File"], st["Exec_Source_Log_Pos"])
	r.Set(measure.ReplicationLag, float(st["Seconds_Behind_Source"]))
	return at, nil
}

// bytesBefore is how much of the log comes before a position, as if all logs were full; NaN when there is none.
func (m *meter) bytesBefore(file, position string) float64 {
	number := float(file[strings.LastIndexByte(file, '.')+1:])
	return number*m.logBytes + float(position)
}

// float is a number as the server writes it; NaN for none.
func float(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}
