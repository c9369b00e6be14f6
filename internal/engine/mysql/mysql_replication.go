package mysql

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"steward/internal/engine"
)

func (mySQL) changeSource(n engine.Node) string {
	return fmt.Sprintf("CHANGE REPLICATION SOURCE TO source_host = '%s', source_port = %d, source_user = '%s', source_password = '%s', "+
		"source_ssl = 1, source_ssl_ca = %s, source_ssl_verify_server_cert = 1, "+
		"source_auto_position = 1, source_connect_retry = 1, source_retry_count = 4294967295, source_heartbeat_period = 2",
		n.Source.Listen.Addr(), n.Source.Listen.Port(), replicaUser, replicaPassword(n), quote(filepath.Join(n.TLS, engine.TLSCA)))
}

func (mySQL) setPosition(context.Context, *session, engine.Node) error { return nil }

func (mySQL) replicationSettings(engine.Node) []setting {
	return []setting{
		{"rpl_semi_sync_source_wait_no_replica", true, live},
		{"rpl_semi_sync_source_wait_for_replica_count", 1, live},
		{"replica_net_timeout", 10, live},
	}
}

// idleApplier is MySQL's coordinator when it waits for more to be received.
const idleApplier = "SELECT id FROM information_schema.processlist WHERE user = 'system user' AND state LIKE 'Replica has read all relay log%'"

// abandonWait is how long an applier gets to come to a transaction that never ends.
// One that has more to go on with is stopped before it does.
const abandonWait = time.Second

// abandon ends an applier that has read all that was received, and is kept by
// a transaction whose rest isn't there: STOP REPLICA would wait a minute for that
// (SLAVE_WAIT_GROUP_DONE in MySQL's source), also when it comes before the kill has
// been noticed. What was applied of the transaction is rolled back.
func (f mySQL) abandon(ctx context.Context, s *session) error {
	if err := s.exec(ctx, f.dialect().stopReceiver); err != nil {
		return err
	}
	for begun := time.Now(); ; {
		st, err := s.status(ctx, f)
		if err != nil || !st.applierRuns() || st.executedAll() {
			return err
		}
		p, err := f.progress(ctx, s, st)
		if err != nil {
			return err
		}
		behind := p.applied < p.received
		if behind && time.Since(begun) >= abandonWait {
			return nil
		}
		if !behind {
			if err := s.kill(ctx, idleApplier); err != nil {
				return err
			}
		}
		if err := pause(ctx, "have the applier give up a transaction that never ends"); err != nil {
			return err
		}
	}
}

// executedAll reports whether nothing was received that isn't executed, not even a part of
// a transaction. MySQL may say so a moment late.
func (st status) executedAll() bool {
	return st["Source_Log_File"] == st["Relay_Source_Log_File"] && st["Read_Source_Log_Pos"] == st["Exec_Source_Log_Pos"]
}

// received are the transactions that a server has, applied or not. Those a
// primary is about to commit belong to it: replicas may have them first. What a
// replica is about to commit counts once all of it is there.
func (s *session) received(ctx context.Context, st status) (all, applied gtidSet, err error) {
	rows, err := s.rows(ctx, "SELECT @@GLOBAL.gtid_owned, @@GLOBAL.gtid_executed")
	if err != nil {
		return nil, nil, err
	}
	owned, err := parseGTIDs(rows[0][0])
	if err != nil {
		return nil, nil, err
	}
	if applied, err = parseGTIDs(rows[0][1]); err != nil {
		return nil, nil, err
	}
	if st == nil {
		return union(owned, applied), applied, nil
	}
	relayed, err := parseGTIDs(st["Retrieved_Gtid_Set"])
	return union(applied, relayed), applied, err
}

func (mySQL) progress(ctx context.Context, s *session, st status) (progress, error) {
	all, applied, err := s.received(ctx, st)
	if err != nil {
		return progress{}, err
	}
	if st == nil {
		all = applied
	}
	return progress{received: all.count(), applied: applied.count(), text: all.String()}, nil
}

func (mySQL) compatible(ctx context.Context, own, source *session, st status) error {
	_, mine, err := own.received(ctx, nil)
	if err != nil {
		return err
	}
	theirs, _, err := source.received(ctx, st)
	if err != nil {
		return err
	}
	if !theirs.holds(mine) {
		return fmt.Errorf("%w: it has %s, its source %s", engine.ErrDiverged, mine, theirs)
	}
	text, err := source.text(ctx, "SELECT @@GLOBAL.gtid_purged")
	if err != nil {
		return err
	}
	purged, err := parseGTIDs(text)
	if err != nil {
		return err
	}
	if !mine.holds(purged) {
		return fmt.Errorf("%w: it has %s, its source no longer %s", engine.ErrDiverged, mine, purged)
	}
	return nil
}

// errCloneRuns is ER_CLONE_TOO_MANY_CONCURRENT_CLONES: a server makes one at a time.
const errCloneRuns = 3634

// clone waits for another one of the server.
func (s *session) clone(ctx context.Context, to string) error {
	for {
		err := s.exec(ctx, "CLONE LOCAL DATA DIRECTORY = "+quote(to))
		if !is(err, errCloneRuns) {
			return err
		}
		if err := pause(ctx, "wait for another copy of the data"); err != nil {
			return err
		}
	}
}

// baseBackup has the server clone itself. It insists on making the folder.
func (mySQL) baseBackup(ctx context.Context, d *Driver, n engine.Node, dir string, _ engine.Runner) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	clone := filepath.Join(dir, "clone")
	if err := s.clone(ctx, clone); err != nil {
		return err
	}
	entries, err := os.ReadDir(clone)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Rename(filepath.Join(clone, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(clone)
}
