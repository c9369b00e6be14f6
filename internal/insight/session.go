// Package insight is what an owner sees of a database that runs: sessions, statements, plans, and the
// servers' logs. It has the rules of what is shown and in which order, and asks no server anything.
package insight

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SessionID names a session for good: a server gives a pid to others later.
type SessionID struct {
	// Node is the ordinal of the session's server.
	Node int
	Pid  int64
	// Started tells sessions of one pid apart: when it began, in microseconds since 1970, or what the server
	// has in its place.
	Started int64
}

// String is the id as customers see it.
func (id SessionID) String() string {
	return fmt.Sprintf("%d-%d-%s", id.Node, id.Pid, strconv.FormatInt(id.Started, 36))
}

// ParseSessionID reads what String wrote.
func ParseSessionID(text string) (SessionID, bool) {
	parts := strings.Split(text, "-")
	if len(parts) != 3 {
		return SessionID{}, false
	}
	node, err1 := strconv.Atoi(parts[0])
	pid, err2 := strconv.ParseInt(parts[1], 10, 64)
	started, err3 := strconv.ParseInt(parts[2], 36, 64)
	id := SessionID{node, pid, started}
	return id, err1 == nil && err2 == nil && err3 == nil && id.String() == text
}

// State is what a session is at.
type State string

// The states of sessions that are shown. One that is idle in a transaction may hold locks.
const (
	Active            State = "active"
	IdleInTransaction State = "idle in transaction"
	Aborted           State = "idle in transaction (aborted)"
)

// Session is one of a customer's that does something, or keeps a transaction open.
type Session struct {
	SessionID
	User, Database, Client string
	State                  State
	// Age is how long the state has lasted, Transaction how long its transaction is open; nil for none.
	Age         time.Duration
	Transaction *time.Duration
	// Wait is what it waits for, in the server's words; "" when it waits for nothing.
	Wait string
	// Text is the statement without its values; the last one of a session that is idle.
	Text string
	// BlockedBy are the pids of sessions, on the same node, that it waits for.
	BlockedBy []int64
}

// Sessions are those of all nodes that could be asked.
type Sessions struct {
	// Sleeping reports whether no server runs until somebody connects.
	Sleeping bool
	List     []Session
	// Idle counts the sessions that do nothing, which aren't in List.
	Idle int
	// Unreachable are the nodes that didn't answer.
	Unreachable []int
}

// MostSessions is how many sessions of a node are looked at.
const MostSessions = 500

// Sort puts the sessions first that cause the most trouble: those that block others, the more the
// earlier, then those that are blocked, then the oldest.
func (s *Sessions) Sort() {
	type key struct {
		node int
		pid  int64
	}
	blocks := map[key]int{}
	for _, one := range s.List {
		for _, pid := range one.BlockedBy {
			blocks[key{one.Node, pid}]++
		}
	}
	rank := func(one Session) (int, int, time.Duration) {
		age := one.Age
		if one.Transaction != nil {
			age = max(age, *one.Transaction)
		}
		return blocks[key{one.Node, one.Pid}], min(1, len(one.BlockedBy)), age
	}
	slices.SortStableFunc(s.List, func(a, b Session) int {
		blocksA, blockedA, ageA := rank(a)
		blocksB, blockedB, ageB := rank(b)
		return cmp.Or(cmp.Compare(blocksB, blocksA), cmp.Compare(blockedB, blockedA), cmp.Compare(ageB, ageA), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Pid, b.Pid))
	})
}

// EndMode is how a session is told to stop.
type EndMode string

// The modes.
const (
	Cancel EndMode = "cancel" // what it does ends, it stays
	End    EndMode = "end"    // it ends
)

// Name is a name that a customer chose, made harmless and no longer than is shown.
func Name(text string) string {
	const most = 128
	text = Harmless(text)
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
