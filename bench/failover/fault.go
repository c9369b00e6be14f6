package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"steward/bench/command"
)

// A fault is what is done to the primary.
type fault struct {
	kind  string
	scope string
}

// Kinds of faults.
const (
	kill9      = "kill9"      // SIGKILL
	stopped    = "stop"       // SIGSTOP, continued once another node serves
	remove     = "remove"     // the data folder is removed, then SIGKILL
	switchover = "switchover" // no fault: a planned move
)

// Scopes say how much of a node is hit. Steward's nodes are servers alone.
const (
	server = "server" // the database server
	node   = "node"   // and the agent that runs it
)

func (f fault) String() string {
	if f.kind == switchover || f.scope == "" {
		return f.kind
	}
	return f.kind + "-" + f.scope
}

func knownFault(kind string) bool {
	return kind == kill9 || kind == stopped || kind == remove || kind == switchover
}

// happened is nil when the fault had its effect: a planned move makes another node
// the primary, and after any other fault the server that was hit doesn't serve any
// more. One node can only be restarted.
func (f fault) happened(size int, hit, now Node) error {
	if f.kind == switchover && size > 1 && now.Name == hit.Name {
		return fmt.Errorf("node %s is the primary as before", hit.Name)
	}
	if now.Name == hit.Name && now.Server == hit.Server {
		return fmt.Errorf("the server of node %s with process id %d still is the primary", hit.Name, hit.Server)
	}
	return nil
}

// inject hits the node and returns the processes that are frozen now. The agent
// is hit first, or it would act on what becomes of its server.
func (f fault) inject(ctx context.Context, t Target, n Node) ([]int, error) {
	if f.kind == switchover {
		return nil, t.Switchover(ctx)
	}
	withAgent := f.scope == node && n.Agent != 0
	if f.kind == stopped {
		if withAgent {
			return freeze(n.Agent, n.Server)
		}
		return freeze(n.Server)
	}
	if withAgent {
		if err := kill(n.Agent); err != nil {
			return nil, err
		}
	}
	if f.kind == remove {
		if err := removeAll(n.DataDir); err != nil {
			return nil, err
		}
	}
	err := kill(n.Server)
	if f.kind == remove && errors.Is(err, syscall.ESRCH) {
		err = nil // PostgreSQL ends itself once it misses its folder
	}
	return nil, err
}

// removeAll removes a folder that a running server goes on writing to.
func removeAll(dir string) error {
	var err error
	for range 20 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("remove the data folder: %w", err)
}

// staleFor is how long a node that came back to life is tempted.
const staleFor = 3 * time.Second

// staleWriter marks rows that were written past the endpoint.
const staleWriter = -1

// tempt writes to a node that was primary before it froze, past the endpoint. It
// returns how many writes the node took, which another primary will never have,
// and what it said to the others.
func tempt(ctx context.Context, e Endpoint, n Node, round int) (taken int, said string, err error) {
	if e, err = e.at(n.Address); err != nil {
		return 0, "", err
	}
	c, err := e.connector()
	if err != nil {
		return 0, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, staleFor)
	defer cancel()
	for seq := int64(1); ctx.Err() == nil; seq++ {
		s, err := connect(ctx, c, e.Engine, time.Second)
		if err == nil {
			err = s.insert(ctx, row{round, staleWriter, seq}, time.Second)
			s.close()
		}
		if err == nil {
			taken++
		} else if ctx.Err() == nil {
			said = strings.Join(strings.Fields(err.Error()), " ")
		}
		command.Sleep(ctx, 5*time.Millisecond)
	}
	return taken, said, nil
}
