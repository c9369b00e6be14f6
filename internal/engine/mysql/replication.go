package mysql

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/engine"
	"steward/internal/wait"
)

// forget has the server apply no more and forget its source.
func (s *session) forget(ctx context.Context, f flavour) error {
	if err := f.abandon(ctx, s); err != nil {
		return err
	}
	return s.exec(ctx, f.dialect().stopAll, f.dialect().reset)
}

// atStart is for people: a server without any transaction has an empty position.
const atStart = "no transactions yet"

// progress is how far a server is.
type progress struct {
	received, applied uint64
	text              string
}

// replicaUser is the account that replicas come with. Its hosts are as exact as can be,
// so that no account of a customer's comes before it.
const replicaUser = "steward_replica"

// replicaAccounts are those of a cluster, by what their hosts are.
func replicaAccounts(n engine.Node) (hosts, accounts []string) {
	hosts = []string{"127.0.0.1"}
	if len(n.Followers) > 0 {
		hosts = nil
	}
	for _, a := range n.Followers {
		hosts = append(hosts, a.String())
	}
	for _, host := range hosts {
		accounts = append(accounts, replicaAccount(host))
	}
	return hosts, accounts
}

func replicaAccount(host string) string { return "'" + replicaUser + "'@" + quote(host) }

// replicaPassword follows from our own, so that there is no further secret to
// keep. MySQL takes 32 characters at most.
func replicaPassword(n engine.Node) string {
	mac := hmac.New(sha256.New, []byte(n.AdminPassword))
	mac.Write([]byte("steward replication"))
	return hex.EncodeToString(mac.Sum(nil))[:32]
}

// makeReplicaAccounts makes the accounts of a cluster with several nodes, anew where
// their password may be another; a node that is alone has none. Ours for other addresses go.
func (s *session) makeReplicaAccounts(ctx context.Context, n engine.Node, anew bool) error {
	hosts, accounts := replicaAccounts(n)
	rows, err := s.rows(ctx, "SELECT Host FROM mysql.user WHERE Repl_slave_priv = 'Y' AND User = "+quote(replicaUser))
	if err != nil {
		return err
	}
	there, gone := 0, []string{}
	for _, r := range rows {
		if clustered(n) && slices.Contains(hosts, r[0]) {
			there++
		} else {
			gone = append(gone, replicaAccount(r[0]))
		}
	}
	wanted := clustered(n) && (anew || there < len(hosts))
	if wanted {
		gone = append(gone, accounts...)
	}
	if len(gone) == 0 {
		return nil
	}
	statements := []string{"SET SESSION sql_log_bin = 0", "DROP USER IF EXISTS " + strings.Join(gone, ", ")}
	if wanted {
		f := flavourOf(n.Installation.Flavour)
		verifier, err := f.verifier(replicaPassword(n))
		if err != nil {
			return err
		}
		for _, account := range accounts {
			statements = append(statements, "CREATE USER "+account+" IDENTIFIED "+verifier+" REQUIRE SSL",
				"GRANT REPLICATION SLAVE"+f.dialect().guarded+" ON *.* TO "+account)
		}
	}
	return s.exec(ctx, statements...)
}

// status is what a replica says of itself, in MySQL's words; nil when the
// server is none.
type status map[string]string

var newWords = strings.NewReplacer("Master", "Source", "Slave", "Replica")

func (s *session) status(ctx context.Context, f flavour) (status, error) {
	record, err := s.record(ctx, f.dialect().status)
	if err != nil || record == nil {
		return nil, err
	}
	st := make(status, len(record))
	for name, value := range record {
		st[newWords.Replace(name)] = value
	}
	return st, nil
}

// follows reports whether the peer is the source, whatever the threads do.
func (st status) follows(p engine.Peer) bool {
	return st != nil && st["Source_Host"] == p.Listen.Addr().String() && st["Source_Port"] == strconv.Itoa(int(p.Listen.Port()))
}

// receiverRuns is also true while the source isn't reached and tried again.
func (st status) receiverRuns() bool {
	return st["Replica_IO_Running"] != "" && st["Replica_IO_Running"] != "No"
}

func (st status) applierRuns() bool { return st["Replica_SQL_Running"] == "Yes" }

func (st status) streams() bool { return st.hears() && st.applierRuns() }

// hears reports whether the source has begun to send: first of all it names its log.
// The receiver calls itself running before the source has agreed to send
// anything from the replica's position on.
func (st status) hears() bool {
	return st["Replica_IO_Running"] == "Yes" && st["Source_Log_File"] != ""
}

// problem is what the threads stopped at.
func (st status) problem() string {
	var all []string
	if !st.receiverRuns() && st["Last_IO_Error"] != "" {
		all = append(all, st["Last_IO_Error"])
	}
	if !st.applierRuns() && st["Last_SQL_Error"] != "" {
		all = append(all, st["Last_SQL_Error"])
	}
	return strings.Join(all, "; ")
}

// ReplicationStatus implements engine.Replicator.
func (d *Driver) ReplicationStatus(ctx context.Context, n engine.Node) (engine.ReplicationStatus, error) {
	var status engine.ReplicationStatus
	s, err := d.admin(ctx, n)
	if err != nil {
		return status, err
	}
	defer s.close()
	f := flavourOf(n.Installation.Flavour)
	st, err := s.status(ctx, f)
	if err != nil {
		return status, err
	}
	p, err := f.progress(ctx, s, st)
	if err != nil {
		return status, err
	}
	status.Received, status.Applied, status.Position = p.received, p.applied, cmp.Or(p.text, atStart)
	if st == nil {
		if status.Writable, err = s.writable(ctx, n); status.Writable {
			d.noteEvents(ctx, s, n)
		}
		return status, err
	}
	status.Streaming = st.streams() && st.follows(n.Source)
	status.Problem = st.problem()
	if seconds, err := strconv.Atoi(st["Seconds_Behind_Source"]); err == nil && p.applied < p.received {
		status.Lag = time.Duration(seconds) * time.Second
	}
	return status, nil
}

// writable is asked of a server that follows nobody. The disk guard alone
// makes no replica of it.
func (s *session) writable(ctx context.Context, n engine.Node) (bool, error) {
	on, err := s.text(ctx, "SELECT @@GLOBAL.read_only")
	return on == "0" || n.ReadOnly && !isReplica(n), err
}

// PrepareReplica implements engine.Replicator. Clones begin with an empty history of
// transactions, so each can follow any other; none must have run.
func (d *Driver) PrepareReplica(ctx context.Context, _, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, controlFile)); err != nil {
		return fmt.Errorf("prepare replica %s: %w", dir, err)
	}
	return d.RegenerateIdentity(ctx, dir)
}

// BaseBackup implements engine.Replicator.
func (d *Driver) BaseBackup(ctx context.Context, n engine.Node, dir string, run engine.Runner) error {
	if err := flavourOf(n.Installation.Flavour).baseBackup(ctx, d, n, dir, run); err != nil {
		return fmt.Errorf("copy the data of node %d: %w", n.Ordinal, err)
	}
	return d.RegenerateIdentity(ctx, dir)
}

// Disconnect implements engine.Replicator. Only the receiver stops: if both
// threads did, what was received would be thrown away when they start again.
func (d *Driver) Disconnect(ctx context.Context, n engine.Node) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	f := flavourOf(n.Installation.Flavour)
	st, err := s.status(ctx, f)
	if err != nil || !st.receiverRuns() {
		return err
	}
	return s.exec(ctx, f.dialect().stopReceiver)
}

// StepDown implements engine.Replicator.
func (d *Driver) StepDown(ctx context.Context, n engine.Node) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	if err := d.stepDown(ctx, s, n); err != nil {
		return err
	}
	st, err := s.status(ctx, flavourOf(n.Installation.Flavour))
	if err == nil && st == nil {
		d.noteEvents(ctx, s, n)
	}
	return err
}

// KeepsReceived implements engine.Replicator: a replica that starts throws its relay
// log away and asks its source for all that follows what it has applied. With positions
// by GTID both flavours do (MySQL by relay_log_recovery, without which a relay log that
// a crash cut short stops the applier).
func (d *Driver) KeepsReceived() bool { return false }

// CanDrain implements engine.Replicator.
func (d *Driver) CanDrain(engine.Installation) bool { return false }

// Drain implements engine.Replicator: there is nothing to.
func (d *Driver) Drain(context.Context, engine.Node, engine.Node) error { return nil }

// pollEvery is how often a server on this machine is asked what it waits for.
const pollEvery = 3 * time.Millisecond

// pause waits for the next poll.
func pause(ctx context.Context, what string) error {
	if err := wait.Sleep(ctx, pollEvery); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

var errStopped = errors.New("the replica stopped applying")
