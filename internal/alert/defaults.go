package alert

import (
	"fmt"
	"strconv"
	"time"

	"steward/internal/spell"
)

// The defaults' numbers are a stored format: new ones go to the end, and no number is used again.
const (
	DiskFilling ID = iota + 1
	DiskNearlyFull
	DiskFullSoon
	ConnectionsMany
	ConnectionsNearlyAll
	ReplicaLags
	TransactionForgotten
	ArchiveBehind
	BackupMissing
	RestartLoop
	WraparoundNear
	WraparoundImminent
	CertificateEnds
	NobodyConfirms
)

const day = 24 * time.Hour

// looks make a trigger whose looks are as far apart as what each looks at is long.
func looks(every time.Duration, occurrences int) Trigger {
	return Trigger{Period: every, Polling: every, Occurrences: occurrences}
}

func above(metric string, of Aggregate, threshold, clear float64) []Criterion {
	return []Criterion{{Metric: metric, Aggregate: of, Operator: Above, Threshold: threshold, Clear: clear}}
}

func below(metric string, of Aggregate, threshold, clear float64) []Criterion {
	return []Criterion{{Metric: metric, Aggregate: of, Operator: Below, Threshold: threshold, Clear: clear}}
}

// defaults hold for every database without anybody having to ask for them. Each has to hold for its occurrences times its
// polling interval, and is over when the value is past the clear threshold for as long.
var defaults = []Rule{
	{
		ID: DiskFilling, Name: "disk-filling", Label: "Disk over 80 %", Severity: Medium, Under: DiskNearlyFull,
		Criteria: above("disk_usage", Lowest, 80, 75), Trigger: looks(time.Minute, 2),
		Found: "The disk is %s full.", Show: showPercent, Advice: "Delete what isn't needed, or choose a plan with more disk.",
	},
	{
		ID: DiskNearlyFull, Name: "disk-nearly-full", Label: "Disk over 90 %", Severity: Severe,
		Criteria: above("disk_usage", Lowest, 90, 87), Trigger: looks(time.Minute, 2),
		Found: "The disk is %s full; at 95 %% the database becomes read-only.", Show: showPercent, Advice: "Choose a plan with more disk now, or delete what isn't needed.",
	},
	{
		ID: DiskFullSoon, Name: "disk-full-soon", Label: "Disk full within three days", Severity: Medium, Under: DiskNearlyFull,
		Criteria: append(below(DiskFullIn, Average, (3*day).Seconds(), (5*day).Seconds()), above("disk_usage", Lowest, 50, 45)...), Trigger: looks(10*time.Minute, 3),
		Found: "If the disk goes on filling as it did in the last day it is full in %s.", Show: showTime, Advice: "Look at the largest tables, and choose a plan with more disk in time.",
	},
	{
		ID: ConnectionsMany, Name: "connections-many", Label: "Connections over 80 %", Severity: Medium, Under: ConnectionsNearlyAll,
		Criteria: above("connection_usage", Lowest, 80, 70), Trigger: looks(time.Minute, 3),
		Found: "%s of the connections are in use.", Show: showPercent, Advice: "Have programs close what they don't use or share connections in a pool, or choose a larger plan.",
	},
	{
		ID: ConnectionsNearlyAll, Name: "connections-nearly-all", Label: "Connections over 95 %", Severity: Severe,
		Criteria: above("connection_usage", Lowest, 95, 90), Trigger: looks(time.Minute, 2),
		Found: "%s of the connections are in use; soon nobody else can connect.", Show: showPercent, Advice: "End sessions that do nothing (queries/running), have programs share connections in a pool, or choose a larger plan.",
	},
	{
		ID: ReplicaLags, Name: "replica-lags", Label: "A replica lags", Severity: Medium,
		Criteria: above("replication_lag", Lowest, 30, 10), Trigger: looks(time.Minute, 3),
		Found: "A replica is %s behind the primary.", Show: showTime, Advice: "Look for long queries on the replica and for bulk writes; programs that read from replicas see old data.",
	},
	{
		ID: TransactionForgotten, Name: "transaction-forgotten", Label: "A transaction is older than an hour", Severity: Medium,
		Criteria: above("longest_transaction", Lowest, time.Hour.Seconds(), time.Hour.Seconds()), Trigger: looks(time.Minute, 2),
		Found: "A transaction has been open for %s: what it might still see can't be cleaned up, and what it locked stays locked.", Show: showTime, Advice: "Find it under queries/running, and end it if it was forgotten.",
	},
	{
		ID: ArchiveBehind, Name: "archive-behind", Label: "The archive is behind", Severity: Severe,
		Criteria: above("archive_lag", Lowest, (15 * time.Minute).Seconds(), (5 * time.Minute).Seconds()), Trigger: looks(time.Minute, 3),
		Found: "What was written %s ago hasn't reached the archive: it couldn't be restored if the machine were lost.", Show: showTime, Advice: "The operator has to look why the bucket takes nothing; until then what waits needs room on the disk.",
	},
	{
		ID: BackupMissing, Name: "backup-missing", Label: "No proven backup for 26 hours", Severity: Severe,
		// 25 hours that hold for another one, so that a database that was just resumed gets its backup first.
		Criteria: above(BackupAge, Average, (25 * time.Hour).Seconds(), (25 * time.Hour).Seconds()), Trigger: looks(10*time.Minute, 6),
		Found: "The newest backup that was proven to restore is %s old.", Show: showTime, Advice: "Look at the list of backups for what went wrong, and take one.",
	},
	{
		ID: RestartLoop, Name: "restart-loop", Label: "The server restarts again and again", Severity: Severe,
		Criteria: above("restarts", Sum, 2, 1), Trigger: Trigger{Period: 15 * time.Minute, Polling: time.Minute, Occurrences: 1},
		Found: "A server was started %s times in a quarter of an hour.", Show: showNumber, Advice: "Look into the logs for what ends it: memory that runs out, a setting, an extension.",
	},
	{
		ID: WraparoundNear, Name: "wraparound-near", Label: "Transaction ids half used", Severity: Medium, Under: WraparoundImminent,
		Criteria: above("transaction_id_age", Lowest, 50, 40), Trigger: looks(10*time.Minute, 2),
		Found: "%s of the transaction ids are used that there are between two clean-ups.", Show: showPercent, Advice: "End old transactions and prepared ones, and have VACUUM (FREEZE) look through the oldest tables.",
	},
	{
		ID: WraparoundImminent, Name: "wraparound-imminent", Label: "Transaction ids nearly used up", Severity: Severe,
		Criteria: above("transaction_id_age", Lowest, 80, 70), Trigger: looks(10*time.Minute, 2),
		Found: "%s of the transaction ids are used; without any the server takes no more writes.", Show: showPercent, Advice: "End old transactions and prepared ones now, and have VACUUM (FREEZE) look through the oldest tables.",
	},
	{
		ID: CertificateEnds, Name: "certificate-ends", Label: "A certificate ends within 30 days", Severity: Medium,
		Criteria: below("certificate_left", Highest, (30 * day).Seconds(), (31 * day).Seconds()), Trigger: looks(10*time.Minute, 2),
		Found: "A server's certificate ends in %s, and no maintenance window has renewed it.", Show: showTime, Advice: "Have it renewed by POST …/patch, or let a maintenance window begin.",
	},
	{
		ID: NobodyConfirms, Name: "nobody-confirms", Label: "No replica confirms commits", Severity: Severe,
		Criteria: below("replication_confirming", Highest, 1, 1), Trigger: looks(time.Minute, 2),
		Found: "%s replicas confirm commits: writes wait, as nothing is to be lost.", Show: showNumber, Advice: "Replicas come back by themselves; if none has in a few minutes, the operator has to look after the machine.",
	},
}

// Defaults are the rules that hold without any set-up, in the order of their numbers.
func Defaults() []Rule {
	all := make([]Rule, len(defaults))
	for i, r := range defaults {
		r.Enabled, r.Scope, r.Channels = true, OfAccount, []ChannelID{Contacts}
		r.Criteria = append([]Criterion{}, r.Criteria...)
		r.Description = fmt.Sprintf(r.Found, "…") + " " + r.Advice
		all[i] = r
	}
	return all
}

// Default is the one of a number.
func Default(id ID) (Rule, bool) {
	if id < 1 || int(id) > len(defaults) {
		return Rule{}, false
	}
	return Defaults()[id-1], true
}

// ProvenWithin is how old the newest backup that can be relied on may become: what the rule backup-missing waits for, and for how long it has to find it.
func ProvenWithin() time.Duration {
	r := defaults[BackupMissing-1]
	return time.Duration(r.Criteria[0].Threshold)*time.Second + time.Duration(r.Trigger.Occurrences)*r.Trigger.Polling
}

func showPercent(v float64) string { return showNumber(v) + " %" }

func showNumber(v float64) string {
	if v >= 10 || v == float64(int(v)) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// showTime is a measured time in words.
func showTime(seconds float64) string {
	return spell.Duration(time.Duration(seconds * float64(time.Second)))
}

// Sentence says what was found, of the value that the rule's first criterion had.
func (r Rule) Sentence(v float64) string {
	if r.Found != "" {
		return fmt.Sprintf(r.Found, r.Show(v)) + " " + r.Advice
	}
	c := r.Criteria[0]
	s := fmt.Sprintf("%s: %s of %s was %s, which is %s %s.", r.Label, c.Aggregate, c.Metric, showNumber(v), words[c.Operator], showNumber(c.Threshold))
	if r.Description != "" {
		s += " " + r.Description
	}
	return s
}

var words = map[Operator]string{Above: "more than", AtLeast: "at least", Below: "less than", AtMost: "at most", Equal: "equal to"}
