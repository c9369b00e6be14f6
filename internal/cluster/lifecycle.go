package cluster

import (
	"maps"
	"slices"
	"strings"

	"steward/internal/fault"
)

// Status is what the API shows of a database's life.
type Status string

// The statuses of a database, as the API has them.
const (
	Provisioning Status = "provisioning"
	Active       Status = "active"
	Suspending   Status = "suspending"
	Suspended    Status = "suspended"
	Resuming     Status = "resuming"
	Restoring    Status = "restoring"
	Failed       Status = "failed"
	Degraded     Status = "degraded"
	Updating     Status = "updating"
	BackingUp    Status = "backing_up"
)

// Statuses are all of them, in the order of the API's document.
var Statuses = []Status{
	Provisioning, Active, Suspending, Suspended, Resuming, Restoring, Failed, Degraded, Updating, BackingUp,
}

// Resting reports whether no process of the database should run.
func (s Status) Resting() bool { return s == Suspending || s == Suspended }

// Trigger is what moves a database from one status to another.
type Trigger string

// The triggers of the table below.
const (
	Ready        Trigger = "ready"         // the work asked for is done: the database serves, or rests after a suspend
	GiveUp       Trigger = "give_up"       // the work failed for good and the database doesn't serve
	GiveUpServes Trigger = "give_up_serve" // the work failed for good but the database serves
	Change       Trigger = "change"        // an update of allow_list, a resize, a reset or a patch was accepted, or a maintenance window's work began
	Backup       Trigger = "backup"        // a snapshot or automatic backup begins
	Restore      Trigger = "restore"       // a restore was accepted
	Suspend      Trigger = "suspend"       // a suspend was accepted
	Resume       Trigger = "resume"        // a resume was accepted
	NodeLost     Trigger = "node_lost"     // fewer nodes serve than should, writes go on
	Down         Trigger = "down"          // nothing can take writes
	Healed       Trigger = "healed"        // all nodes serve again
)

// Transition is one row of the table.
type Transition struct {
	From Status
	On   Trigger
	To   Status
}

// Table is every legal status change. The check constraint in the store and docs/lifecycle.md are proven equal to it.
var Table = []Transition{
	{Provisioning, Ready, Active},
	{Provisioning, GiveUp, Failed},
	{Active, Change, Updating},
	{Updating, Ready, Active},
	{Updating, GiveUpServes, Degraded},
	{Updating, GiveUp, Failed},
	{Active, Backup, BackingUp},
	{BackingUp, Ready, Active},
	{Active, Restore, Restoring},
	{Degraded, Restore, Restoring},
	{Failed, Restore, Restoring},
	{Restoring, Ready, Active},
	{Restoring, GiveUp, Failed},
	{Active, Suspend, Suspending},
	{Degraded, Suspend, Suspending}, // with its account: customers suspend active ones only
	{Suspending, Ready, Suspended},
	{Suspended, Resume, Resuming},
	{Resuming, Ready, Active},
	{Resuming, GiveUp, Failed},
	{Active, NodeLost, Degraded},
	{Active, Down, Failed},
	{Degraded, Down, Failed},
	{Failed, NodeLost, Degraded},
	{Degraded, Healed, Active},
	{Failed, Healed, Active},
}

// Next is the status that follows, and false when the table has no such row.
func Next(from Status, on Trigger) (Status, bool) {
	for _, t := range Table {
		if t.From == from && t.On == on {
			return t.To, true
		}
	}
	return "", false
}

// Request is something a customer asks of an existing database.
type Request string

// The requests that need a status.
const (
	RequestDelete      Request = "deleted"
	RequestUpdate      Request = "updated"
	RequestPatch       Request = "patched"
	RequestTrial       Request = "tried with another version"
	RequestRestart     Request = "restarted"
	RequestSwitchover  Request = "switched over"
	RequestReset       Request = "given new credentials"
	RequestSuspend     Request = "suspended"
	RequestResume      Request = "resumed"
	RequestCredentials Request = "asked for its credentials"
	RequestSSL         Request = "asked for its certificate"
	RequestBackups     Request = "asked for its backups"
	RequestSnapshot    Request = "backed up"
	RequestRestore     Request = "restored"
	RequestLook        Request = "looked into"
	RequestShape       Request = "changed inside"
)

// serving are the statuses in which servers run, and credentials and certificate are answered:
// clients refresh them at any time.
var serving = []Status{Active, Updating, BackingUp, Degraded}

// allowed is the table of docs/rules.md, Databases.
var allowed = map[Request][]Status{
	RequestDelete:      {Active, Failed, Degraded, Suspended}, // all that last
	RequestUpdate:      {Active},
	RequestPatch:       {Active},
	RequestTrial:       {Active, BackingUp, Degraded, Suspended},
	RequestRestart:     {Active},
	RequestSwitchover:  {Active},
	RequestReset:       {Active},
	RequestSuspend:     {Active},
	RequestResume:      {Suspended},
	RequestCredentials: serving,
	RequestSSL:         serving,
	RequestBackups:     Statuses[1:], // all but provisioning
	RequestSnapshot:    {Active},
	RequestRestore:     {Active, Degraded, Failed},
	RequestLook:        serving,
	RequestShape:       {Active, BackingUp, Degraded}, // its primary may change while it is updating
}

// Require is nil when the status lets the request through, else a fault whose
// sentence names the status and what to wait for.
func Require(s Status, r Request) error {
	if slices.Contains(allowed[r], s) {
		return nil
	}
	when := "when it is " + orList(allowed[r])
	if len(allowed[r]) == len(Statuses)-1 {
		when = "once it is " + string(allowed[r][0])
	}
	return fault.NewPrecondition("The database is %s; it can be %s %s.", s, r, when)
}

// RequestsAllowed lists the statuses a request needs, for the generated documentation.
func RequestsAllowed() map[Request][]Status { return maps.Clone(allowed) }

func orList(statuses []Status) string {
	texts := make([]string, len(statuses))
	for i, s := range statuses {
		texts[i] = string(s)
	}
	last := len(texts) - 1
	if last < 1 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:last], ", ") + " or " + texts[last]
}
