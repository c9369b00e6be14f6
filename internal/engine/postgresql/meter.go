package postgresql

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
	"steward/internal/measure"
)

// meterTimeout bounds a statement of a meter in the server, and meterLimits have it do so.
const (
	meterTimeout = "5s"
	meterLimits  = "SET statement_timeout = '" + meterTimeout + "'; SET lock_timeout = '1s'; "
)

// closeTimeout is how long a server that hangs is waited for to end a connection.
const closeTimeout = 50 * time.Millisecond

// slowEvery is how often is asked what takes the server a look at its files.
const slowEvery = 5 * time.Minute

// meter implements engine.Meter.
type meter struct {
	n     engine.Node
	major int
	// conn is nil while the meter rests.
	conn *pgconn.PgConn
	// limited reports whether meterLimits hold on the connection, and prepared whether it has fastQuery.
	limited, prepared bool
	// columns are those of fastQuery.
	columns []column
	// age and size are what was read of ageQuery and sizeQuery last, and slowAt when; the size is NaN when it wasn't told in time.
	age, size float64
	slowAt    time.Time
}

// OpenMeter implements engine.Metered. The connection is one of those that are ours alone: see Connections.
func (Driver) OpenMeter(ctx context.Context, n engine.Node) (engine.Meter, error) {
	major, err := majorOf(n.Installation)
	if err != nil {
		return nil, err
	}
	m := &meter{n: n, major: major, columns: columnsOf(n)}
	if err := m.connect(ctx); err != nil {
		return nil, fmt.Errorf("open meter: %w", err)
	}
	return m, nil
}

// connect connects, unless the meter is connected.
func (m *meter) connect(ctx context.Context) error {
	if m.conn != nil {
		return nil
	}
	conn, err := asOurs(ctx, m.n)
	if err != nil {
		return err
	}
	m.conn, m.limited, m.prepared = conn, false, false
	return nil
}

// query asks, and connects first if need be. The limits go with the first question: each takes the server and us a turn.
func (m *meter) query(ctx context.Context, sql string) ([][]string, error) {
	if err := m.connect(ctx); err != nil {
		return nil, err
	}
	if !m.limited {
		sql = meterLimits + sql
	}
	rows, err := query(ctx, m.conn, sql)
	m.limited = m.limited || err == nil
	return rows, err
}

// Close implements engine.Meter.
func (m *meter) Close() { m.Rest() }

// Rest implements engine.Meter.
func (m *meter) Rest() {
	if m.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = m.conn.Close(ctx) // the server ends it, too, when it can't be told
	m.conn = nil
}

const fastName = "fast"

// column is one of the numbers that are asked for.
type column struct {
	metric measure.Metric
	sql    string
}

// Numbers that are no metrics by themselves.
const (
	hits    measure.Metric = 0
	misses  measure.Metric = 255
	written measure.Metric = 254
	applied measure.Metric = 253
)

// columns of fastQuery. What a scan of the sessions says is s, of the databases' counters d.
var columns = []column{
	{measure.Connections, "s.total"},
	{measure.ConnectionsActive, "s.active"},
	{measure.ConnectionsIdle, "s.idle"},
	{measure.ConnectionsInTransaction, "s.open"},
	{measure.LocksWaiting, "s.waiting"},
	{measure.LongestTransaction, "s.transaction"},
	{measure.LongestQuery, "s.query"},
	{measure.Commits, "d.commits"},
	{measure.Rollbacks, "d.rollbacks"},
	{measure.RowsReturned, "d.returned"},
	{measure.RowsRead, "d.fetched"},
	{measure.RowsInserted, "d.inserted"},
	{measure.RowsUpdated, "d.updated"},
	{measure.RowsDeleted, "d.deleted"},
	{measure.TemporaryFiles, "d.files"},
	{measure.TemporaryBytes, "d.bytes"},
	{measure.Deadlocks, "d.deadlocks"},
	{hits, "d.hits"},
	{misses, "d.misses"},
	{measure.Checkpoints, "c.checkpoints"},
	{measure.Primary, "CASE WHEN w.replica THEN 0 ELSE 1 END"},
	{measure.LogBytes, "w.written - '0/0'"},
	{written, "w.written - '0/0'"},
	{applied, "w.applied - '0/0'"},
	{measure.ReplicationLag, `CASE WHEN w.replica THEN
		CASE WHEN w.written = w.applied THEN 0 ELSE greatest(0, extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())) END END`},
	{measure.ConfirmingReplicas, `CASE WHEN NOT w.replica AND current_setting('synchronous_standby_names') <> '' THEN
		(SELECT count(*) FROM pg_stat_get_wal_senders() WHERE sync_state IN ('sync', 'quorum')) END`},
}

// archiveColumns are of servers that archive by themselves: what waits, and for how long the oldest has.
var archiveColumns = []column{
	{measure.ArchiveWaiting, "a.waiting"},
	{measure.ArchiveLag, "a.lag"},
}

// columnsOf are those that are asked of a node: where the platform archives it knows by itself what waits.
func columnsOf(n engine.Node) []column {
	if n.Remote == nil {
		return columns
	}
	return slices.Concat(columns, archiveColumns)
}

// fastQuery asks for what the server has in memory. The functions stand for the views of their names, which would look up
// names of databases and roles for each session.
func (m *meter) fastQuery() string {
	checkpoints := "checkpoints_timed + checkpoints_req AS checkpoints FROM pg_stat_bgwriter"
	if m.major >= 17 {
		checkpoints = "num_timed + num_requested AS checkpoints FROM pg_stat_checkpointer"
	}
	asked := make([]string, len(m.columns))
	for i, c := range m.columns {
		asked[i] = "(" + c.sql + ")::float8"
	}
	archive := ""
	if m.n.Remote != nil {
		archive = `,
	(SELECT count(*) AS waiting, coalesce(extract(epoch FROM clock_timestamp() - min(modification)), 0) AS lag
		FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready') a`
	}
	return "SELECT " + strings.Join(asked, ", ") + `
FROM (SELECT count(*) AS total, count(*) FILTER (WHERE state = 'active') AS active, count(*) FILTER (WHERE state = 'idle') AS idle,
		count(*) FILTER (WHERE state LIKE 'idle in transaction%') AS open, count(*) FILTER (WHERE wait_event_type = 'Lock') AS waiting,
		coalesce(extract(epoch FROM clock_timestamp() - min(xact_start)), 0) AS transaction,
		coalesce(extract(epoch FROM clock_timestamp() - min(query_start) FILTER (WHERE state = 'active')), 0) AS query
	FROM pg_stat_get_activity(NULL)
	WHERE backend_type = 'client backend' AND usesysid <> (SELECT oid FROM pg_authid WHERE rolname = '` + adminRole + `')) s,
	(SELECT sum(xact_commit) AS commits, sum(xact_rollback) AS rollbacks, sum(tup_returned) AS returned, sum(tup_fetched) AS fetched,
		sum(tup_inserted) AS inserted, sum(tup_updated) AS updated, sum(tup_deleted) AS deleted, sum(temp_files) AS files, sum(temp_bytes) AS bytes,
		sum(deadlocks) AS deadlocks, sum(blks_hit) AS hits, sum(blks_read) AS misses FROM pg_stat_database) d,
	(SELECT ` + checkpoints + `) c,
	(SELECT pg_is_in_recovery() AS replica,
		CASE WHEN pg_is_in_recovery() THEN greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) ELSE pg_current_wal_insert_lsn() END AS written,
		CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END AS applied) w` + archive
}

// What is asked for rarely: the age of transaction ids, of 2^31 less the margin that the server keeps, and sizes. For those the server looks at each of
// its files, which may take longer than all that waits for the reading: they have less time than that.
const (
	ageQuery  = "SELECT max(greatest(age(datfrozenxid)::float8 / (2^31 - 3000000), mxid_age(datminmxid)::float8 / (2^31 - 3000000))) * 100 FROM pg_database"
	sizeQuery = "SET LOCAL statement_timeout = '2s'; SELECT sum(pg_database_size(oid))::float8 FROM pg_database"
)

// Measure implements engine.Meter.
func (m *meter) Measure(ctx context.Context, r *measure.Reading) (engine.LogPosition, error) {
	position := engine.LogPosition{Written: math.NaN(), Applied: math.NaN()}
	row, err := m.fast(ctx)
	if err != nil {
		return position, fmt.Errorf("read statistics: %w", err)
	}
	for i, c := range m.columns {
		v := float(row[i])
		switch c.metric {
		case hits:
			r.Hits = v
		case misses:
			r.Misses = v
		case written:
			position.Written = v
		case applied:
			position.Applied = v
		default:
			r.Set(c.metric, v)
		}
	}
	r.Set(measure.ConnectionsMax, float64(Driver{}.Connections(m.n)))
	if err := m.measureSlow(ctx, r); err != nil {
		return position, err
	}
	r.Set(measure.Up, 1)
	return position, nil
}

// fast is the row of fastQuery. A connection that is asked again has it prepared, which takes the server a tenth each time.
func (m *meter) fast(ctx context.Context) ([]string, error) {
	again := m.conn != nil && m.limited
	if again && !m.prepared {
		if _, err := m.conn.Prepare(ctx, fastName, m.fastQuery(), nil); err != nil {
			return nil, classify(err)
		}
		m.prepared = true
	}
	var rows [][]string
	if again {
		result := m.conn.ExecPrepared(ctx, fastName, nil, nil, nil).Read()
		if result.Err != nil {
			return nil, classify(result.Err)
		}
		rows = texts(result)
	} else {
		var err error
		if rows, err = m.query(ctx, m.fastQuery()); err != nil {
			return nil, err
		}
	}
	if len(rows) != 1 || len(rows[0]) != len(m.columns) {
		return nil, fmt.Errorf("%d rows", len(rows))
	}
	return rows[0], nil
}

// measureSlow adds what is asked for rarely, as it was last.
func (m *meter) measureSlow(ctx context.Context, r *measure.Reading) error {
	if m.slowAt.IsZero() || r.At.Sub(m.slowAt) >= slowEvery {
		rows, err := m.query(ctx, ageQuery)
		if err != nil {
			return fmt.Errorf("read ages: %w", err)
		}
		m.age, m.size, m.slowAt = float(rows[0][0]), m.measureSize(ctx), r.At
	}
	r.Set(measure.TransactionIDAge, m.age)
	r.Set(measure.DatabaseSize, m.size)
	return nil
}

// measureSize is how large the databases are; NaN when the server doesn't say so in time, which costs nothing else that was read.
func (m *meter) measureSize(ctx context.Context) float64 {
	rows, err := m.query(ctx, sizeQuery)
	if err != nil || len(rows) != 1 {
		if m.conn != nil && m.conn.IsClosed() {
			m.Rest() // the next question connects
		}
		return math.NaN()
	}
	return float(rows[0][0])
}

// float is a number as the server writes it; NaN for NULL.
func float(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}
