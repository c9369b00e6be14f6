package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"

	"steward/internal/failpoint"
)

// applier makes one running HAProxy do what a route says. Every step looks
// first, so that it can be repeated after a crash at any point.
type applier struct {
	*runtime
	families []family
	// listening is false for older generations, which only keep sessions.
	listening bool
}

// apply carries a route out: first nobody new gets in who shouldn't, then the
// servers change, then others are let in, and last the sessions that fit no
// more are ended. In this order a customer never meets a server of another's.
func (a applier) apply(ctx context.Context, r Route) error {
	if a.listening {
		if err := a.block(r); err != nil {
			return err
		}
	}
	for _, which := range []role{primary, reads} {
		if err := a.setServers(r, which); err != nil {
			return err
		}
	}
	if a.listening {
		if err := a.admit(r); err != nil {
			return err
		}
	}
	failpoint.Here("gateway: before ending sessions")
	return a.endSessions(ctx, r)
}

// block takes entries off the access lists that aren't in the route. Entries are
// changed one by one rather than by HAProxy's versioned replacement: with lists of two
// versions in its tree, 2.6 can match an entry that a source doesn't fit.
func (a applier) block(r Route) error {
	return a.changeACL(r, func(name string, present, wanted []string) (commands []string) {
		for _, p := range present {
			if _, there := slices.BinarySearch(wanted, p); !there {
				commands = append(commands, fmt.Sprintf("del acl %s %s", name, p))
			}
		}
		return commands
	})
}

// admit adds entries to the access lists.
func (a applier) admit(r Route) error {
	return a.changeACL(r, func(name string, present, wanted []string) (commands []string) {
		for _, p := range wanted {
			if _, there := slices.BinarySearch(present, p); !there {
				commands = append(commands, fmt.Sprintf("add acl %s %s", name, p))
			}
		}
		return commands
	})
}

// changeACL runs what diff finds between two sorted lists until it finds nothing any more.
func (a applier) changeACL(r Route, diff func(name string, present, wanted []string) []string) error {
	for _, f := range a.families {
		name := aclName(r.Port, f)
		err := a.converge(func() ([]string, error) {
			text, err := a.ask("show acl " + name)
			if err != nil {
				return nil, err
			}
			present := parseACL(text)
			slices.Sort(present)
			return diff(name, present, r.patterns(f)), nil
		})
		if err != nil {
			return fmt.Errorf("access list of port %d: %w", r.Port, err)
		}
	}
	return nil
}

func (a applier) setServers(r Route, which role) error {
	name := proxyName(which, r.Port)
	err := a.converge(func() ([]string, error) {
		text, err := a.ask("show servers state " + name)
		if err != nil {
			return nil, err
		}
		present, err := parseServers(text)
		if err != nil {
			return nil, err
		}
		if text, err = a.ask("show stat " + backendID(text) + " 4 -1"); err != nil {
			return nil, err
		}
		if err := parseLimits(text, present); err != nil {
			return nil, err
		}
		var commands []string
		for i, want := range r.servers(which) {
			commands = append(commands, serverCommands(name+"/"+serverName(i), present[serverName(i)], want)...)
		}
		return commands, nil
	})
	if err != nil {
		return fmt.Errorf("servers of %s: %w", name, err)
	}
	return nil
}

// serverCommands turn one state of a server into another, never letting it be
// chosen with an address that it is about to lose.
func serverCommands(name string, present, want server) (commands []string) {
	if want.maintenance && !present.maintenance {
		commands = append(commands, fmt.Sprintf("set server %s state maint", name))
	}
	if want.address != present.address {
		commands = append(commands, fmt.Sprintf("set server %s addr %s port %d", name, want.address.Addr(), want.address.Port()))
	}
	if want.connections != present.connections {
		commands = append(commands, fmt.Sprintf("set maxconn server %s %d", name, want.connections))
	}
	if !want.maintenance && present.maintenance {
		commands = append(commands, fmt.Sprintf("set server %s state ready", name))
	}
	return commands
}

// converge runs the commands that find gives until it gives none. What HAProxy
// says to commands is prose; what it then shows is what counts.
func (a applier) converge(find func() ([]string, error)) error {
	var said []string
	for range 3 {
		commands, err := find()
		if err != nil || len(commands) == 0 {
			return err
		}
		if said, err = a.run(commands...); err != nil {
			return err
		}
	}
	return fmt.Errorf("HAProxy doesn't take it and says %.200q", said)
}

// endSessions ends the port's sessions whose source may not connect, or whose
// server isn't one any more, and returns when they are gone.
func (a applier) endSessions(ctx context.Context, r Route) error {
	deadline, pause := time.Now().Add(2*time.Second), 500*time.Microsecond
	for {
		ids, err := a.misfits(r)
		if err != nil {
			return fmt.Errorf("sessions of port %d: %w", r.Port, err)
		}
		if len(ids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("sessions of port %d: %d can't be ended", r.Port, len(ids))
		}
		commands := make([]string, len(ids))
		for i, id := range ids {
			commands[i] = "shutdown session " + id
		}
		if _, err := a.run(commands...); err != nil {
			return fmt.Errorf("sessions of port %d: %w", r.Port, err)
		}
		// It marks them; they end on HAProxy's next round.
		select {
		case <-time.After(pause):
			pause = min(2*pause, 20*time.Millisecond)
		case <-ctx.Done():
			return fmt.Errorf("sessions of port %d: %w", r.Port, ctx.Err())
		}
	}
}

// misfits are the ids of sessions that the route doesn't allow.
func (a applier) misfits(r Route) ([]string, error) {
	text, err := a.ask("show sess")
	if err != nil {
		return nil, err
	}
	all, err := parseSessions(text)
	if err != nil {
		return nil, err
	}
	var ids, questions []string
	var asked []session
	for _, s := range all {
		switch which, mine := roleOf(s.frontend, r.Port); {
		case !mine:
		case !r.Allows(s.source.Addr()):
			ids = append(ids, s.id)
		default:
			s.frontend = string(which)
			asked, questions = append(asked, s), append(questions, "show sess "+s.id)
		}
	}
	answers, err := a.run(questions...)
	if err != nil {
		return nil, err
	}
	for i, s := range asked {
		at, connected := parseServerAddress(answers[i])
		if connected && at != parked() && !slices.Contains(r.targets(role(s.frontend)), at) {
			ids = append(ids, s.id)
		}
	}
	return ids, nil
}

// roleOf tells which end of the port a frontend is.
func roleOf(frontend string, port int) (role, bool) {
	for _, which := range []role{primary, reads} {
		if frontend == proxyName(which, port) {
			return which, true
		}
	}
	return "", false
}
