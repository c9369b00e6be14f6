package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/engine"
	"steward/internal/measure"
	"steward/internal/testdir"
)

// meterDeadline is long because machines that run tests are busy.
const meterDeadline = 30 * time.Second

// metered is a meter of a server, and the last reading.
type metered struct {
	t *testing.T
	s *Server
	m engine.Meter
}

func openMeter(t *testing.T, s *Server) *metered {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), meterDeadline)
	defer cancel()
	m, err := s.Bench.Driver.OpenMeter(ctx, s.Node)
	must(t, err, "open meter")
	t.Cleanup(m.Close)
	return &metered{t, s, m}
}

func (m *metered) read() (measure.Reading, engine.LogPosition) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), meterDeadline)
	defer cancel()
	r := measure.NewReading(time.Now())
	at, err := m.m.Measure(ctx, &r)
	must(m.t, err, "measure")
	return r, at
}

// trxKept is longer than MariaDB and MySQL show the same transactions in information_schema.INNODB_TRX: they look anew when nobody has asked for
// 100 ms (CACHE_MIN_IDLE_TIME_NS, storage/innobase/trx/trx0i_s.cc), so that who asks more often sees what was there at first, for ever.
const trxKept = 150 * time.Millisecond

// until reads until what is wanted is so: servers count some things a moment after the fact.
func (m *metered) until(what string, ok func(measure.Reading) bool) {
	m.t.Helper()
	var last measure.Reading
	defer func() {
		if m.t.Failed() {
			for _, d := range measure.Definitions() {
				m.t.Logf("%s: %v", d.Name, last.Values[d.Metric])
			}
		}
	}()
	anew := time.NewTicker(trxKept)
	defer anew.Stop()
	await.True(m.t, what, func() bool {
		<-anew.C
		last, _ = m.read()
		return ok(last)
	})
}

// measured has each number move with what is done, and by as much where it is a count.
func measured(t *testing.T, s *Server) {
	m := openMeter(t, s)
	s.Exec(t, "CREATE TABLE measured (v int PRIMARY KEY, t text)")
	before, from := m.read()
	if before.Values[measure.Up] != 1 || before.Values[measure.Primary] != 1 || before.Values[measure.ConnectionsMax] < 10 {
		t.Errorf("up %v, primary %v, connections_max %v", before.Values[measure.Up], before.Values[measure.Primary], before.Values[measure.ConnectionsMax])
	}
	family := s.Node.Installation.Family()
	for _, d := range measure.Definitions() {
		if strings.HasPrefix(d.Name, "replication") || strings.HasPrefix(d.Name, "archive") || !d.Of(family) || fromKernel[d.Metric] {
			continue
		}
		if math.IsNaN(before.Values[d.Metric]) {
			t.Errorf("%s isn't measured", d.Name)
		}
	}
	const rows = 1000 // besides which the catalog's own, which servers count late, are few
	values := make([]string, rows)
	for i := range values {
		values[i] = fmt.Sprintf("(%d, 'a')", i)
	}
	s.Exec(t, append([]string{"INSERT INTO measured VALUES " + strings.Join(values, ", ")}, "UPDATE measured SET t = 'b' WHERE v < 20", "DELETE FROM measured WHERE v < 10")...)
	grown := func(r measure.Reading, metric measure.Metric) float64 {
		return r.Values[metric] - before.Values[metric]
	}
	m.until("rows are counted", func(r measure.Reading) bool {
		return grown(r, measure.RowsInserted) >= rows && grown(r, measure.RowsUpdated) >= 20 && grown(r, measure.RowsDeleted) >= 10 && grown(r, measure.LogBytes) > 0
	})
	after, to := m.read()
	if n := grown(after, measure.RowsInserted); n > rows*1.2 {
		t.Errorf("%v rows inserted, not %d", n, rows)
	}
	s.Exec(t, "BEGIN", "UPDATE measured SET t = 'c' WHERE v = 40", "ROLLBACK", "BEGIN", "UPDATE measured SET t = 'c' WHERE v = 40", "COMMIT")
	m.until("transactions are counted", func(r measure.Reading) bool {
		return grown(r, measure.Commits) >= 1 && grown(r, measure.Rollbacks) >= 1
	})
	if !(to.Written > from.Written) || to.Written != to.Applied {
		t.Errorf("the log from %+v to %+v", from, to)
	}
	m.sessions()
}

// fromKernel are metrics that no server tells.
var fromKernel = map[measure.Metric]bool{
	measure.CPUUsage: true, measure.MemoryUsage: true, measure.MemoryUsed: true, measure.AvailableMemory: true,
	measure.DiskUsage: true, measure.DiskUsed: true, measure.AvailableDisk: true, measure.CacheHitRatio: true,
	measure.ReadOps: true, measure.WriteOps: true, measure.ReadBytes: true, measure.WriteBytes: true, measure.NetworkIn: true, measure.NetworkOut: true,
	measure.ConnectionUsage: true, measure.Restarts: true, measure.CertificateLeft: true,
}

// sessions opens some, in each state.
func (m *metered) sessions() {
	t, s := m.t, m.s
	t.Helper()
	ctx := t.Context()
	db := s.DB(t, s.Login())
	db.SetMaxOpenConns(0)
	idle, err := db.Conn(ctx)
	must(t, err, "connect")
	defer idle.Close()
	must(t, idle.PingContext(ctx), "connect")
	open, err := db.Conn(ctx)
	must(t, err, "connect")
	defer open.Close()
	began := time.Now()
	tx, err := open.BeginTx(ctx, nil)
	must(t, err, "begin")
	_, err = tx.ExecContext(ctx, "UPDATE measured SET t = 'held' WHERE v = 30")
	must(t, err, "hold a row")
	waits := make(chan error, 1)
	waiter, err := db.Conn(ctx)
	must(t, err, "connect")
	defer func() { // the row first: the waiter's connection isn't closed before
		_ = tx.Rollback() // no-op after the commit
		waiter.Close()
	}()
	go func() {
		_, err := waiter.ExecContext(ctx, "UPDATE measured SET t = 'late' WHERE v = 30")
		waits <- err
	}()
	m.until("sessions in each state", func(r measure.Reading) bool {
		v := &r.Values
		return v[measure.Connections] >= 3 && v[measure.ConnectionsIdle] >= 1 && v[measure.ConnectionsInTransaction] == 1 && v[measure.ConnectionsActive] == 1 &&
			v[measure.LocksWaiting] == 1 && v[measure.LongestTransaction] > 0
	})
	held := time.Now()
	m.until("the transaction grows older", func(r measure.Reading) bool { return r.Values[measure.LongestTransaction] >= 1 })
	now, _ := m.read()
	// The row was held before, and not before the transaction had begun. MariaDB and MySQL tell whole seconds.
	if age, least, most := now.Values[measure.LongestTransaction], now.At.Sub(held).Seconds()-1, time.Since(began).Seconds()+1; age < least || age > most {
		t.Errorf("the longest transaction is %v s old, which has lasted for %v to %v s", age, least, most)
	}
	must(t, tx.Commit(), "commit")
	must(t, <-waits, "wait for the row")
	m.until("nobody waits", func(r measure.Reading) bool {
		return r.Values[measure.LocksWaiting] == 0 && r.Values[measure.ConnectionsInTransaction] == 0
	})
}

// hostileNames are names of tables that would break out of a text that didn't quote them.
var hostileNames = []string{`a"b`, "x'); DROP TABLE measured; --", "line\nbreak", `back\slash`, "\x1b[31mred", "{}=,"}

var (
	familyName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)
	labelName  = regexp.MustCompile(`^[a-z_]+$`)
)

// shown has all that exporters show, and tables by their size.
func shown(t *testing.T, s *Server) {
	m := openMeter(t, s)
	statements := []string{"CREATE TABLE big_one (v int PRIMARY KEY, t text)"}
	var drops []string
	for _, name := range hostileNames {
		statements = append(statements, "CREATE TABLE "+s.quoted(name)+" (v int)")
		drops = append(drops, "DROP TABLE "+s.quoted(name))
	}
	random := testdir.Rand(t, "what doesn't get smaller")
	for i := range 40 {
		text := make([]byte, 8000)
		for j := range text {
			text[j] = 'a' + byte(random.IntN(26))
		}
		statements = append(statements, fmt.Sprintf("INSERT INTO big_one VALUES (%d, '%s')", i, text))
	}
	s.Exec(t, append(statements, s.analyze("big_one"))...)
	families, err := m.m.Families(t.Context())
	must(t, err, "families")
	seen := map[string]float64{}
	for _, f := range families {
		if _, twice := seen[f.Name]; twice || !familyName.MatchString(f.Name) || f.Help == "" {
			t.Errorf("family %q twice, or of no good name", f.Name)
		}
		seen[f.Name] = 0
		labels := map[string]bool{}
		for _, sample := range f.Samples {
			seen[f.Name] = sample.Value
			text := strings.Join(sample.Labels, "\x00")
			if math.IsNaN(sample.Value) || labels[text] || len(sample.Labels)%2 != 0 {
				t.Errorf("%s has %v twice, or no number: %v", f.Name, sample.Labels, sample.Value)
			}
			labels[text] = true
			for i := 0; i < len(sample.Labels); i += 2 {
				if !labelName.MatchString(sample.Labels[i]) {
					t.Errorf("%s has the label %q", f.Name, sample.Labels[i])
				}
			}
			for _, secret := range []string{s.Node.AdminPassword, s.Node.RootPassword} {
				if strings.Contains(text, secret) {
					t.Errorf("%s shows a password", f.Name)
				}
			}
		}
	}
	if seen[measure.UpFamily(s.Node.Installation.Family())] != 1 || len(seen) < 100 {
		t.Errorf("%d families, up is %v", len(seen), seen[measure.UpFamily(s.Node.Installation.Family())])
	}
	var tables []measure.Table
	await.True(t, "the big table comes first", func() bool {
		tables, err = s.Bench.Driver.Tables(t.Context(), s.Node, 100)
		must(t, err, "tables")
		return len(tables) > 0 && tables[0].Table == "big_one" && tables[0].Bytes > 100_000
	})
	names := map[string]bool{}
	for _, found := range tables {
		names[found.Table] = true
	}
	for _, name := range hostileNames {
		if !names[name] {
			t.Errorf("%q isn't among %v", name, names)
		}
	}
	few, err := s.Bench.Driver.Tables(t.Context(), s.Node, 3)
	if err != nil || len(few) != 3 {
		t.Errorf("%d tables of 3, %v", len(few), err)
	}
	s.Exec(t, append(drops, "DROP TABLE big_one")...)
}

// heldTables has a customer keep tables to a session of theirs, more than could be waited for one after the other, and others beside them.
func heldTables(t *testing.T, s *Server) {
	const held, others = 12, 40
	var names, creates, drops []string
	for i := range held + others {
		name := fmt.Sprintf("beside_%d", i)
		if i < held {
			name = fmt.Sprintf("held_%d", i)
			names = append(names, name)
		}
		creates = append(creates, "CREATE TABLE "+name+" (v int PRIMARY KEY)", "INSERT INTO "+name+" VALUES (1)")
		drops = append(drops, "DROP TABLE "+name)
	}
	s.Exec(t, creates...)
	db := s.DB(t, s.Login())
	holder, err := db.Conn(t.Context())
	must(t, err, "connect")
	hold, letGo := []string{"BEGIN", "LOCK TABLE " + strings.Join(names, ", ") + " IN ACCESS EXCLUSIVE MODE"}, "ROLLBACK"
	if s.Node.Installation.Flavour != engine.FlavourPostgreSQL {
		hold, letGo = []string{"LOCK TABLES " + strings.Join(names, " WRITE, ") + " WRITE"}, "UNLOCK TABLES"
	}
	for _, q := range hold {
		_, err := holder.ExecContext(t.Context(), q)
		must(t, err, q)
	}
	ctx, cancel := context.WithTimeout(t.Context(), meterDeadline)
	defer cancel()
	began := time.Now()
	tables, err := s.Bench.Driver.Tables(ctx, s.Node, 2*(held+others))
	must(t, err, "tables, some of which are held")
	seen := map[string]bool{}
	for _, one := range tables {
		seen[one.Table] = true
	}
	for i := range others {
		if name := fmt.Sprintf("beside_%d", held+i); !seen[name] {
			t.Fatalf("%s isn't among %d tables", name, len(tables))
		}
	}
	t.Logf("%d tables, %d of them held: %v", held+others, held, time.Since(began).Round(time.Millisecond))
	m := openMeter(t, s)
	m.read()
	_, err = m.m.Families(ctx)
	must(t, err, "families while tables are held")
	_, err = holder.ExecContext(t.Context(), letGo)
	must(t, err, letGo)
	must(t, holder.Close(), "close")
	s.Exec(t, drops...)
}

// analyze has the server count what is in a table.
func (s *Server) analyze(table string) string {
	if s.Node.Installation.Flavour == engine.FlavourPostgreSQL {
		return "VACUUM ANALYZE " + table
	}
	return "ANALYZE TABLE " + table
}

// quoted is a name in the server's SQL.
func (s *Server) quoted(name string) string {
	q := `"`
	if s.Node.Installation.Flavour != engine.FlavourPostgreSQL {
		q = "`"
	}
	return q + strings.ReplaceAll(name, q, q+q) + q
}

// frozen has a meter give up on a server that hangs, and go on with a new connection when it is back.
func frozen(t *testing.T, s *Server) {
	m := openMeter(t, s)
	m.read()
	s.signalAll(t, syscall.SIGSTOP)
	await.True(t, "all threads to stand still", s.standsStill)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r := measure.NewReading(time.Now())
	_, err := m.m.Measure(ctx, &r)
	began := time.Now()
	m.m.Close()
	took := time.Since(began)
	s.signalAll(t, syscall.SIGCONT)
	if !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		t.Errorf("measuring a frozen server: %v", err)
	}
	if took > 10*time.Second {
		t.Errorf("to leave it took %v", took)
	}
	openMeter(t, s).read()
}

// signalAll signals all of the server's processes.
func (s *Server) signalAll(t *testing.T, sig syscall.Signal) {
	t.Helper()
	s.Signal(t, sig)
	for _, pid := range descendants(s.cmd.Process.Pid) {
		_ = syscall.Kill(pid, sig) // it may have ended
	}
}

// standsStill reports whether all threads of all of the server's processes are stopped: a thread that runs on another processor sees the signal later.
func (s *Server) standsStill() bool {
	for _, pid := range append(descendants(s.cmd.Process.Pid), s.cmd.Process.Pid) {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, stat := range threads {
			if state, _, ok := readStat(stat); ok && state != "T" && state != "Z" {
				return false
			}
		}
	}
	return true
}

// lagMeasured has a replica lag that can't apply what it has received, and catch up.
func lagMeasured(t *testing.T, c *Cluster) {
	ctx, replica := t.Context(), c.replicas()[0]
	c.Primary.Exec(t, "CREATE TABLE lagging (v int)", "INSERT INTO lagging VALUES (1)")
	m, primary := openMeter(t, replica), openMeter(t, c.Primary)
	caughtUp := func() bool {
		r, at := m.read()
		return r.Values[measure.Primary] == 0 && at.Applied == at.Written && r.Values[measure.ReplicationLag] == 0
	}
	await.True(t, "the replica to follow", caughtUp)
	await.NoError(t, "the table arrives", func() error {
		_, err := replica.DB(t, replica.Login()).ExecContext(ctx, "SELECT v FROM lagging")
		return err
	})
	reader, err := replica.DB(t, replica.Login()).Conn(ctx)
	must(t, err, "connect to the replica")
	defer reader.Close()
	hold, letGo, write := []string{"BEGIN", "SELECT v FROM lagging"}, "COMMIT", "DROP TABLE lagging"
	if c.Bench.Installation.Flavour != engine.FlavourPostgreSQL {
		hold, letGo, write = []string{"LOCK TABLES lagging READ"}, "UNLOCK TABLES", "INSERT INTO lagging VALUES (2)"
	}
	for _, q := range hold {
		_, err := reader.ExecContext(ctx, q)
		must(t, err, q)
	}
	before, _ := primary.read()
	if n := before.Values[measure.ConfirmingReplicas]; !math.IsNaN(n) {
		t.Errorf("%v replicas confirm commits, which wait for none", n)
	}
	c.Primary.Exec(t, write)
	await.True(t, "the lag to be seen", func() bool {
		r, at := m.read()
		_, source := primary.read()
		return at.Written > at.Applied && r.Values[measure.ReplicationLag] > 0 && source.Written >= at.Written
	})
	if c.Bench.Installation.Flavour == engine.FlavourPostgreSQL {
		lagMatches(t, m, primary)
	}
	if after, _ := primary.read(); !(after.Values[measure.LogBytes] > before.Values[measure.LogBytes]) {
		t.Errorf("the primary's log: %v, then %v", before.Values[measure.LogBytes], after.Values[measure.LogBytes])
	}
	_, err = reader.ExecContext(ctx, letGo)
	must(t, err, letGo)
	await.True(t, "the replica to catch up", caughtUp)
	if c.Bench.Installation.Flavour != engine.FlavourPostgreSQL {
		c.Primary.Exec(t, "DROP TABLE lagging")
	}
}

// lagMatches compares a lag, of a replica that applies nothing, with what both servers say, in bytes, and with the clock, in seconds.
func lagMatches(t *testing.T, replica, primary *metered) {
	t.Helper()
	place := func(s *Server, function string) float64 {
		at, err := strconv.ParseFloat(s.Text(t, "SELECT "+function+" - '0/0'"), 64)
		must(t, err, "the log's position")
		return at
	}
	before := time.Now()
	was, _ := replica.read()
	const written = 1 << 20
	primary.s.Exec(t, "SELECT pg_logical_emit_message(false, 'lag', repeat('x', "+strconv.Itoa(written)+"))")
	var now measure.Reading
	var at engine.LogPosition
	await.True(t, "the replica to have what it doesn't apply", func() bool {
		now, at = replica.read()
		return at.Written-at.Applied >= written
	})
	if applied := place(replica.s, "pg_last_wal_replay_lsn()"); at.Applied != applied {
		t.Errorf("the replica has applied up to %v, it says %v", at.Applied, applied)
	}
	least := place(primary.s, "pg_current_wal_insert_lsn()")
	_, source := primary.read()
	if most := place(primary.s, "pg_current_wal_insert_lsn()"); source.Written < least || source.Written > most {
		t.Errorf("the primary has written up to %v, it says %v and then %v", source.Written, least, most)
	}
	most := time.Since(before).Seconds()
	if grown := now.Values[measure.ReplicationLag] - was.Values[measure.ReplicationLag]; !(grown > 0 && grown <= most) {
		t.Errorf("the lag has grown by %v s within %v s", grown, most)
	}
}

// confirmingMeasured has both replicas of a primary counted that waits for one of them.
func confirmingMeasured(t *testing.T, c *Cluster) {
	primary, replica := openMeter(t, c.Primary), openMeter(t, c.replicas()[0])
	primary.until("both replicas confirm commits", func(r measure.Reading) bool { return r.Values[measure.ConfirmingReplicas] == 2 })
	if r, _ := replica.read(); !math.IsNaN(r.Values[measure.ConfirmingReplicas]) {
		t.Errorf("%v confirm a replica's", r.Values[measure.ConfirmingReplicas])
	}
}
