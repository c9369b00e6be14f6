package enginetest

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"steward/internal/cluster"
	"steward/internal/insight"
	"steward/internal/measure"
	"steward/internal/parameter"
)

// loaded are how many statements of each kind a load has, and how many rows its table.
const (
	loadedSelects = 100
	loadedInserts = 60
	loadedUpdates = 40
	loadedDeletes = 20
	loadedRows    = 2000
)

// loadMeasured has a customer's load counted by as much as is done: each kind of statement, rows that are looked at, what doesn't fit
// into memory, deadlocks, and what takes long.
func loadMeasured(t *testing.T, s *Server) {
	m := openMeter(t, s)
	rows := make([]string, loadedRows)
	for i := range rows {
		rows[i] = fmt.Sprintf("(%d, 0, '%0200d')", i, i)
	}
	s.Exec(t, "CREATE TABLE loaded (id int PRIMARY KEY, v int, t text)", "INSERT INTO loaded VALUES "+strings.Join(rows, ", "), s.analyze("loaded"))
	m.statements()
	m.scans()
	m.spills()
	m.deadlocks()
	m.takesLong()
	if s.Node.Installation.Family() == cluster.PostgreSQL {
		m.databases()
	}
	s.Exec(t, "DROP TABLE loaded")
}

// grows waits until metrics have grown by at least so much each, and demands that it isn't more than the bound.
func (m *metered) grows(what string, before measure.Reading, least, most map[measure.Metric]float64) {
	m.t.Helper()
	var after measure.Reading
	m.until(what, func(r measure.Reading) bool {
		after = r
		for metric, n := range least {
			if !(r.Values[metric]-before.Values[metric] >= n) {
				return false
			}
		}
		return true
	})
	for metric, n := range most {
		if grown := after.Values[metric] - before.Values[metric]; grown > n {
			m.t.Errorf("%s: %s has grown by %v, not %v", what, metric.Definition().Name, grown, n)
		}
	}
}

// statements are as many as are counted. Looking takes some, too.
func (m *metered) statements() {
	before, _ := m.read()
	var all []string
	for i := range loadedSelects {
		all = append(all, fmt.Sprintf("SELECT v FROM loaded WHERE id = %d", i))
	}
	for i := range loadedInserts {
		all = append(all, fmt.Sprintf("INSERT INTO loaded VALUES (%d, 1, 'new')", loadedRows+i))
	}
	for i := range loadedUpdates {
		all = append(all, fmt.Sprintf("UPDATE loaded SET v = 2 WHERE id = %d", i))
	}
	for i := range loadedDeletes {
		all = append(all, fmt.Sprintf("DELETE FROM loaded WHERE id = %d", loadedRows+i))
	}
	m.s.Exec(m.t, all...)
	n := float64(len(all))
	if m.s.Node.Installation.Family() == cluster.PostgreSQL {
		m.grows("a load of single statements", before,
			map[measure.Metric]float64{measure.Commits: n, measure.RowsRead: loadedSelects, measure.RowsInserted: loadedInserts, measure.RowsUpdated: loadedUpdates, measure.RowsDeleted: loadedDeletes},
			map[measure.Metric]float64{measure.Commits: n * 1.3, measure.RowsUpdated: loadedUpdates * 1.5, measure.RowsDeleted: loadedDeletes * 1.5})
		return
	}
	m.grows("a load of single statements", before,
		map[measure.Metric]float64{measure.Queries: n, measure.Selects: loadedSelects, measure.Inserts: loadedInserts, measure.Updates: loadedUpdates, measure.Deletes: loadedDeletes},
		map[measure.Metric]float64{measure.Queries: n * 1.5, measure.Selects: loadedSelects * 1.5, measure.Inserts: loadedInserts, measure.Updates: loadedUpdates, measure.Deletes: loadedDeletes})
}

// scans look at whole tables, in the server's cache.
func (m *metered) scans() {
	before, _ := m.read()
	const times = 5
	all := make([]string, times)
	for i := range all {
		all[i] = "SELECT count(v) FROM loaded"
	}
	m.s.Exec(m.t, all...)
	looked := measure.RowsRead
	if m.s.Node.Installation.Family() == cluster.PostgreSQL {
		looked = measure.RowsReturned
	}
	m.grows("scans of a table", before, map[measure.Metric]float64{looked: times * loadedRows}, map[measure.Metric]float64{looked: times * loadedRows * 2})
	if after, _ := m.read(); !(after.Hits-before.Hits >= times) {
		m.t.Errorf("pages found in the cache: %v, then %v", before.Hits, after.Hits)
	}
}

// spills has a statement need more memory than it may have.
func (m *metered) spills() {
	before, _ := m.read()
	if m.s.Node.Installation.Family() == cluster.PostgreSQL {
		m.s.Exec(m.t, "SET work_mem = '64kB'", "SELECT count(*) FROM (SELECT repeat(md5(i::text), 10) AS t FROM generate_series(1, 20000) i ORDER BY t) sorted")
		m.grows("a sort on the disk", before, map[measure.Metric]float64{measure.TemporaryFiles: 1, measure.TemporaryBytes: 5 << 20},
			map[measure.Metric]float64{measure.TemporaryFiles: 100, measure.TemporaryBytes: 50 << 20})
		return
	}
	m.s.Exec(m.t, "SET SESSION tmp_table_size = 1024", "SET SESSION max_heap_table_size = 16384", "SELECT count(*) FROM (SELECT DISTINCT t FROM loaded) different")
	m.grows("a temporary table on the disk", before, map[measure.Metric]float64{measure.TemporaryFiles: 1}, map[measure.Metric]float64{measure.TemporaryFiles: 20})
}

// deadlocks has two sessions wait for each other, once.
func (m *metered) deadlocks() {
	t, ctx := m.t, m.t.Context()
	before, _ := m.read()
	sessions := make([]*sql.Conn, 2)
	for i := range sessions {
		var err error
		sessions[i], err = m.s.DB(t, m.s.Login()).Conn(ctx)
		must(t, err, "connect")
		defer sessions[i].Close()
	}
	lock := func(who, row int) error {
		_, err := sessions[who].ExecContext(ctx, "UPDATE loaded SET v = v + 1 WHERE id = "+strconv.Itoa(row))
		return err
	}
	for who := range sessions {
		_, err := sessions[who].ExecContext(ctx, "BEGIN")
		must(t, err, "begin")
		must(t, lock(who, who), "lock a row")
	}
	first := make(chan error, 1)
	go func() { first <- lock(0, 1) }()
	m.until("one waits for the other", func(r measure.Reading) bool { return r.Values[measure.LocksWaiting] == 1 })
	second := lock(1, 0)
	if second != nil { // its transaction is over, and so is what the other waits for
		_, err := sessions[1].ExecContext(ctx, "ROLLBACK")
		must(t, err, "roll back")
	}
	if err := <-first; (err == nil) == (second == nil) {
		t.Errorf("a deadlock ends with %v and %v", err, second)
	}
	for _, session := range sessions {
		_, err := session.ExecContext(ctx, "ROLLBACK")
		must(t, err, "roll back")
	}
	m.grows("a deadlock", before, map[measure.Metric]float64{measure.Deadlocks: 1}, map[measure.Metric]float64{measure.Deadlocks: 1})
}

// takesLong has a statement run until it is seen.
func (m *metered) takesLong() {
	ctx, end := context.WithCancel(m.t.Context())
	defer end()
	long := "SELECT SLEEP(60)"
	if m.s.Node.Installation.Family() == cluster.PostgreSQL {
		long = "SELECT pg_sleep(60)"
	}
	db := m.s.DB(m.t, m.s.Login())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = db.ExecContext(ctx, long) // it is cancelled
	}()
	m.until("a statement that takes long", func(r measure.Reading) bool {
		return r.Values[measure.LongestQuery] >= 1 && r.Values[measure.LongestQuery] < 60 && r.Values[measure.ConnectionsActive] == 1
	})
	end()
	<-ended
	sessions, _, err := m.s.Bench.Driver.Sessions(m.t.Context(), m.s.Node)
	must(m.t, err, "look at sessions")
	for _, one := range sessions { // MySQL's go on without their client
		_, err := m.s.Bench.Driver.EndSession(m.t.Context(), m.s.Node, one.SessionID, insight.End)
		must(m.t, err, "end the session")
	}
	m.until("nothing takes long", func(r measure.Reading) bool {
		return r.Values[measure.LongestQuery] < 1 && r.Values[measure.ConnectionsActive] == 0
	})
}

// databases are as large as the server tells its customers, and to drop one takes a checkpoint.
func (m *metered) databases() {
	t, s := m.t, m.s
	before, _ := m.read()
	s.Exec(t, "CREATE DATABASE checkpointed", "DROP DATABASE checkpointed")
	m.grows("a checkpoint", before, map[measure.Metric]float64{measure.Checkpoints: 1}, map[measure.Metric]float64{measure.Checkpoints: 10})
	size, err := strconv.ParseFloat(s.Text(t, "SELECT pg_database_size('defaultdb')"), 64)
	must(t, err, "the database's size")
	age, err := strconv.ParseFloat(s.Text(t, "SELECT max(age(datfrozenxid)) / 2^31 * 100 FROM pg_database"), 64)
	must(t, err, "the oldest transaction id")
	checkpoints := "checkpoints_timed + checkpoints_req FROM pg_stat_bgwriter"
	if s.Text(t, "SELECT current_setting('server_version_num')::int >= 170000") == "true" {
		checkpoints = "num_timed + num_requested FROM pg_stat_checkpointer"
	}
	counters := map[measure.Metric]string{
		measure.LogBytes: "pg_current_wal_insert_lsn() - '0/0'", measure.Checkpoints: checkpoints,
		measure.Deadlocks: "sum(deadlocks) FROM pg_stat_database", measure.TemporaryFiles: "sum(temp_files) FROM pg_stat_database",
		measure.TemporaryBytes: "sum(temp_bytes) FROM pg_stat_database", measure.Commits: "sum(xact_commit) FROM pg_stat_database",
		measure.RowsRead: "sum(tup_fetched) FROM pg_stat_database", measure.RowsInserted: "sum(tup_inserted) FROM pg_stat_database",
	}
	said := func() map[measure.Metric]float64 {
		all := map[measure.Metric]float64{}
		for metric, sql := range counters {
			var err error
			all[metric], err = strconv.ParseFloat(s.Text(t, "SELECT "+sql), 64)
			must(t, err, sql)
		}
		return all
	}
	least := said()
	now, _ := openMeter(t, s).read() // one that hasn't asked yet
	most := said()
	for metric := range counters {
		if told := now.Values[metric]; told < least[metric] || told > most[metric] {
			t.Errorf("%s is %v, the server says %v and then %v", metric.Definition().Name, told, least[metric], most[metric])
		}
	}
	if told, most := now.Values[measure.ConnectionsMax], s.Text(t, "SELECT current_setting('max_connections')::int - "+strconv.Itoa(parameter.OwnConnections)); fmt.Sprint(told) != most {
		t.Errorf("%v connections at most, the server has %s besides ours", told, most)
	}
	largest, err := s.Bench.Driver.Tables(t.Context(), s.Node, 50)
	must(t, err, "the largest tables")
	for _, one := range largest {
		if one.Table != "loaded" || one.Schema != "public" {
			continue
		}
		told, err := strconv.ParseInt(s.Text(t, "SELECT pg_relation_size('"+cmp.Or(one.Index, one.Table)+"')"), 10, 64)
		must(t, err, "the size of a table, or an index")
		if one.Bytes < told || one.Bytes > told+64<<10 { // what it keeps aside of long values comes on top
			t.Errorf("%+v; the server says %d bytes", one, told)
		}
	}
	if len(largest) < 2 || largest[0].Table != "loaded" {
		t.Errorf("the largest tables are %+v", largest)
	}
	if all := now.Values[measure.DatabaseSize]; all < size || all > size+100<<20 {
		t.Errorf("all databases have %v bytes, one of them %v", all, size)
	}
	if told := now.Values[measure.TransactionIDAge]; told < age || told > age*1.1+0.01 {
		t.Errorf("the oldest transaction id is %v %% on its way, the server says %v", told, age)
	}
}
