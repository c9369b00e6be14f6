package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// TaskKind is what kind of upkeep a database waits for.
type TaskKind string

// The kinds of tasks.
const (
	// TaskUpdate moves the nodes to the newest installed build of their series.
	TaskUpdate TaskKind = "update"
	// TaskCertificate renews the servers' certificates.
	TaskCertificate TaskKind = "certificate"
	// TaskRestart makes settings true that a running server doesn't take over.
	TaskRestart TaskKind = "restart"
)

// Task is one thing that is left for a database's maintenance window.
type Task struct {
	Kind TaskKind `json:"kind"`
	// From and To are the versions of an update.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Deadline is by when it must be done; nil when it can wait.
	Deadline *time.Time `json:"deadline,omitempty"`
}

// Description is one sentence about what will be done.
func (t Task) Description() string {
	switch t.Kind {
	case TaskUpdate:
		return fmt.Sprintf("The servers move from version %s to %s.", t.From, t.To)
	case TaskCertificate:
		return "The servers' certificates are renewed."
	case TaskRestart:
		return "The servers restart with settings that they take over at a start only."
	}
	return "The servers are seen to."
}

// done is one sentence about what has been done.
func (t Task) done() string {
	switch t.Kind {
	case TaskUpdate:
		return fmt.Sprintf("The servers moved from version %s to %s.", t.From, t.To)
	case TaskCertificate:
		return "The servers' certificates were renewed."
	case TaskRestart:
		return "The servers restarted with their settings."
	}
	return "The servers were seen to."
}

// DescribeTasks is a sentence for each task.
func DescribeTasks(tasks []Task) string { return sentences(tasks, Task.Description) }

// DescribeDone says what has become of tasks: those that aren't left are done.
func DescribeDone(tasks, left []Task) string {
	done := slices.DeleteFunc(slices.Clone(tasks), func(t Task) bool {
		return slices.ContainsFunc(left, func(l Task) bool { return l.Kind == t.Kind })
	})
	if len(done) == 0 {
		return "There was nothing to do."
	}
	return sentences(done, Task.done)
}

func sentences(tasks []Task, of func(Task) string) string {
	texts := make([]string, len(tasks))
	for i, t := range tasks {
		texts[i] = of(t)
	}
	return strings.Join(texts, " ")
}

// Maintenance is what a database waits for, and how far its windows got.
type Maintenance struct {
	Tasks []Task
	// Announced and Begun are the starts of the last window whose work was
	// announced, and was begun.
	Announced, Begun *time.Time
}

// Bounds of what is done in a window.
const (
	// nodeTime is what one node's turn is given of a window: as long as an
	// operation that goes on failing is tried.
	nodeTime = 10 * time.Minute
	// noticeTime is how long before its start a window's work is announced.
	noticeTime = 24 * time.Hour
)

// NextWindow is the window in which a database's tasks are due: the open one if
// nothing was begun in it and its rest is long enough, or else the next.
func (c Cluster) NextWindow(now time.Time) (start, end time.Time) {
	start, end = c.Updates.Current(now)
	if c.begunIn(start) || end.Sub(now) < time.Duration(c.Size)*nodeTime {
		return c.Updates.Current(end)
	}
	return start, end
}

// begunIn reports whether work was begun in the window that opens at start.
func (c Cluster) begunIn(start time.Time) bool {
	return c.Maintenance.Begun != nil && !c.Maintenance.Begun.Before(start)
}

// Maintaining reports whether the window's work is being done at now.
func (c Cluster) Maintaining(now time.Time) bool {
	start, _ := c.Updates.Current(now)
	return c.Status == Updating && !start.After(now) && c.begunIn(start) && len(c.Maintenance.Tasks) > 0
}

// MaintenanceStep is what is to be done about a database's maintenance.
type MaintenanceStep string

// Nothing, telling of what the next window brings, or the work itself.
const (
	MaintenanceWaits    MaintenanceStep = ""
	MaintenanceAnnounce MaintenanceStep = "announce"
	MaintenanceBegin    MaintenanceStep = "begin"
)

// MaintenanceDue decides what is to be done at now, and about which window. Work
// begins while the database is well only: a change on the way, a backup that is
// being taken or a lost node come first.
func (c Cluster) MaintenanceDue(now time.Time) (step MaintenanceStep, start, end time.Time) {
	start, end = c.NextWindow(now)
	m := c.Maintenance
	switch {
	case len(m.Tasks) == 0 || c.Deleted != nil:
	case !start.After(now):
		if c.Status == Active {
			step = MaintenanceBegin
		}
	case !slices.Contains([]Status{Active, BackingUp, Degraded}, c.Status):
	case start.Sub(now) <= noticeTime && (m.Announced == nil || !m.Announced.Equal(start)):
		step = MaintenanceAnnounce
	}
	return step, start, end
}
