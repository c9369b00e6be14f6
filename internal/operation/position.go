package operation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Snapshot says which transactions of the store had ended at a moment: those before Xmin, and of those
// before Xmax all that aren't in Running.
type Snapshot struct {
	Xmin, Xmax uint64
	Running    []uint64
}

// mostRunning bounds what is read of a snapshot that a client sends.
const mostRunning = 1000

// ParseSnapshot reads PostgreSQL's own notation: xmin:xmax:xip,xip.
func ParseSnapshot(text string) (s Snapshot, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return s, false
	}
	var err1, err2 error
	s.Xmin, err1 = strconv.ParseUint(parts[0], 10, 63)
	s.Xmax, err2 = strconv.ParseUint(parts[1], 10, 63)
	if err1 != nil || err2 != nil || s.Xmin == 0 || s.Xmax < s.Xmin {
		return s, false
	}
	if parts[2] == "" {
		return s, s.String() == text
	}
	for one := range strings.SplitSeq(parts[2], ",") {
		xid, err := strconv.ParseUint(one, 10, 63)
		last := s.Xmin
		if n := len(s.Running); n > 0 {
			last = s.Running[n-1] + 1
		}
		if err != nil || xid < last || xid >= s.Xmax || len(s.Running) == mostRunning {
			return s, false
		}
		s.Running = append(s.Running, xid)
	}
	return s, s.String() == text
}

// String is what ParseSnapshot reads.
func (s Snapshot) String() string {
	running := make([]string, len(s.Running))
	for i, xid := range s.Running {
		running[i] = strconv.FormatUint(xid, 10)
	}
	return fmt.Sprintf("%d:%d:%s", s.Xmin, s.Xmax, strings.Join(running, ","))
}

// NewerThan reports whether more transactions had ended than in another snapshot of the same store.
func (s Snapshot) NewerThan(other Snapshot) bool {
	return s.Xmax > other.Xmax || s.Xmin > other.Xmin || s.Xmax == other.Xmax && s.Xmin == other.Xmin && len(s.Running) < len(other.Running)
}

// Has reports whether a transaction had ended.
func (s Snapshot) Has(xid uint64) bool {
	if xid >= s.Xmax {
		return false
	}
	_, running := slices.BinarySearch(s.Running, xid)
	return xid < s.Xmin || !running
}

// Position is how far a reader is in the changes of events: all of From, and of those that To has beyond it
// the ones up to Xid and ID in the order of both.
type Position struct {
	From, To Snapshot
	Xid      uint64
	ID       ID
}

// At is the position of who has read all of a snapshot.
func At(s Snapshot) Position { return Position{From: s, To: s} }

// String is the position as clients keep it.
func (p Position) String() string {
	if p.From.String() == p.To.String() {
		return p.To.String()
	}
	return fmt.Sprintf("%s/%s/%d.%d", p.From, p.To, p.Xid, p.ID)
}

// ParsePosition reads what String wrote.
func ParsePosition(text string) (p Position, ok bool) {
	const longest = 32 << 10
	if len(text) > longest {
		return p, false
	}
	from, rest, more := strings.Cut(text, "/")
	if p.From, ok = ParseSnapshot(from); !ok || !more {
		p.To = p.From
		return p, ok
	}
	to, last, _ := strings.Cut(rest, "/")
	if p.To, ok = ParseSnapshot(to); !ok {
		return p, false
	}
	xid, id, _ := strings.Cut(last, ".")
	var err1, err2 error
	p.Xid, err1 = strconv.ParseUint(xid, 10, 63)
	n, err2 := strconv.ParseInt(id, 10, 64)
	p.ID = ID(n)
	return p, err1 == nil && err2 == nil && p.String() == text
}

// Changed is an operation, and the transaction that last changed what its event shows.
type Changed struct {
	Operation
	Xid uint64
}
