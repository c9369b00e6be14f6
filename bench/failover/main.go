// Command failover measures how long writers can't write when the primary of a
// cluster fails, and whether they lose what they were told is written: on steward,
// and in the same run on Patroni with etcd and HAProxy. `make bench-failover` runs
// it; docs/performance.md says how to read it. Nothing here asserts a time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"steward/bench/command"
	"steward/internal/testnet"
	"steward/test/harness"
)

// settings are the flags.
type settings struct {
	engines, commits, replications, faults, peers, scopes []string

	size, rounds, peerRounds, writers int
	timeout, warm, deadline           time.Duration
	json                              bool
}

func main() {
	// The machine's own network stays as it is; steward's gateway is the kernel's where this is root.
	os.Exit(testnet.Within(func() int {
		command.Main("failover", parse, run)
		return 0
	}))
}

// list is a flag of several words with commas between them.
type list struct{ words *[]string }

func (l list) String() string {
	if l.words == nil {
		return ""
	}
	return strings.Join(*l.words, ",")
}

func (l list) Set(text string) error {
	*l.words = strings.Split(text, ",")
	return nil
}

func parse(args []string, out io.Writer) (settings, error) {
	s := settings{
		engines: []string{"postgresql/15"}, commits: []string{"local"}, replications: []string{"semi_synch"},
		faults: []string{kill9, stopped, remove}, peers: []string{"all"}, scopes: []string{node, server},
	}
	f := flag.NewFlagSet("failover", flag.ContinueOnError)
	f.SetOutput(out)
	f.Var(list{&s.engines}, "engine", "engines, as the API names them: postgresql/15, mysql/10.11")
	f.Var(list{&s.commits}, "commit", "replication_commit_type of PostgreSQL: local, on, off, remote_write, remote_apply;\npeers replicate synchronously for on, remote_write and remote_apply")
	f.Var(list{&s.replications}, "replication", "replication_type of MySQL: semi_synch, asynch")
	f.Var(list{&s.faults}, "fault", "what is done to the primary: kill9, stop (SIGSTOP, continued once another serves),\nremove (its data folder, then SIGKILL), switchover (a planned move)")
	planned := f.Bool("switchover", false, "only -fault switchover: a resize under load, which restarts every node, or Patroni's own")
	f.IntVar(&s.size, "size", 3, "steward's cluster_size; with 1 a failover is a restart in place")
	f.IntVar(&s.rounds, "rounds", 20, "rounds of each fault on steward; 0 leaves steward out")
	peers := f.String("peers", "all", "Patroni clusters to measure beside it: none, default, tuned, all")
	f.IntVar(&s.peerRounds, "peer-rounds", 3, "rounds of each fault on each peer")
	f.Var(list{&s.scopes}, "peer-scope", "what of a peer's node is hit: server (the postmaster), node (and its agent)")
	f.IntVar(&s.writers, "writers", 8, "writers, each with one connection")
	f.DurationVar(&s.timeout, "timeout", time.Second, "how long a writer waits for a connection, and for an answer")
	f.DurationVar(&s.warm, "warm", 2*time.Second, "load before each fault")
	f.DurationVar(&s.deadline, "deadline", 3*time.Minute, "how long a round may take; its series ends with it")
	f.BoolVar(&s.json, "json", false, "print JSON instead of a table")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if *planned {
		s.faults = []string{switchover}
	}
	s.peers = peerNames(*peers)
	return s, s.validate(f.Args())
}

func peerNames(choice string) []string {
	switch choice {
	case "none":
		return nil
	case "all":
		return []string{"default", "tuned"}
	}
	return []string{choice}
}

func (s settings) validate(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unknown: %s", strings.Join(rest, " "))
	}
	for _, kind := range s.faults {
		if !knownFault(kind) {
			return fmt.Errorf("-fault: there is no %q", kind)
		}
	}
	for _, name := range s.peers {
		if _, ok := profiles[name]; !ok {
			return fmt.Errorf("-peers: there is no %q", name)
		}
	}
	for _, scope := range s.scopes {
		if scope != server && scope != node {
			return fmt.Errorf("-peer-scope: there is no %q", scope)
		}
	}
	if s.writers < 1 || s.rounds < 0 || s.peerRounds < 0 {
		return errors.New("-writers must be positive, and no number of rounds negative")
	}
	return nil
}

// modes are the clusters to measure.
func (s settings) modes() []mode {
	var all []mode
	for _, engine := range s.engines {
		m := mode{engine: engine, size: s.size, replication: "asynch"}
		if m.family() == mySQL {
			for _, m.replication = range s.replications {
				all = append(all, m.orAlone())
			}
			continue
		}
		for _, m.commit = range s.commits {
			all = append(all, m.orAlone())
		}
	}
	return all
}

// orAlone is the mode of a single node, if it is one: that replicates nothing.
func (m mode) orAlone() mode {
	if m.size == 1 {
		m.replication = "none"
	}
	return m
}

// subject is a kind of target, the rounds it gets and the faults it is given.
type subject struct {
	name   string
	start  func(context.Context) (Target, error)
	rounds int
	faults []fault
}

func (s settings) subjects(m mode) []subject {
	var all []subject
	if s.rounds > 0 {
		all = append(all, subject{"steward", func(context.Context) (Target, error) { return startSteward(m, s.rounds) }, s.rounds, s.faultsOf("")})
	}
	if m.family() != postgreSQL || s.peerRounds == 0 {
		return all
	}
	for _, name := range s.peers {
		p := profiles[name]
		all = append(all, subject{"patroni-" + name, func(ctx context.Context) (Target, error) { return startPatroni(ctx, p, m) }, s.peerRounds, s.faultsOf(s.scopes...)})
	}
	return all
}

func (s settings) faultsOf(scopes ...string) []fault {
	var all []fault
	for _, kind := range s.faults {
		if kind == switchover {
			all = append(all, fault{kind, ""})
			continue
		}
		for _, scope := range scopes {
			all = append(all, fault{kind, scope})
		}
	}
	return all
}

// run measures all there is to measure. A target that fails doesn't keep the others
// from being measured; the run fails at its end.
func run(ctx context.Context, s settings, out io.Writer) error {
	defer harness.RemoveBinaries()
	var results []Result
	var errs []error
	for _, m := range s.modes() {
		for _, sub := range s.subjects(m) {
			measured, err := s.measure(ctx, m, sub)
			results = append(results, measured...)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s %s %s: %w", sub.name, m.engine, m, err))
			}
		}
	}
	compare(results)
	if s.json {
		return errors.Join(append(errs, command.PrintJSON(out, results))...)
	}
	return errors.Join(append(errs, printTable(out, results))...)
}

// measure gives one subject all its faults.
func (s settings) measure(ctx context.Context, m mode, sub subject) (results []Result, err error) {
	var t Target
	closeTarget := func() {
		if t != nil {
			err = errors.Join(err, t.Close())
		}
		t = nil
	}
	defer func() { closeTarget() }()
	for _, f := range sub.faults {
		if err := ctx.Err(); err != nil {
			return results, err
		}
		if t == nil {
			begun := time.Now()
			if t, err = sub.start(ctx); err != nil {
				return results, err
			}
			progress("%s %s %s started in %v", sub.name, m.engine, m, time.Since(begun).Round(time.Millisecond))
		}
		result := Result{Target: sub.name, Engine: m.engine, Mode: m.String(), Fault: f.String(), kind: f.kind}
		failed := s.measureFault(ctx, t, f, sub.rounds, &result)
		result.Summary = summarise(result.Rounds)
		if failed != nil {
			result.Error = failed.Error()
			err = errors.Join(err, fmt.Errorf("%s: %w", f, failed))
			closeTarget() // who knows what state it is in: the next fault gets a new one
		}
		results = append(results, result)
	}
	return results, err
}

func (s settings) measureFault(ctx context.Context, t Target, f fault, rounds int, result *Result) error {
	ready, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	if _, err := awaitHealthy(ready, t); err != nil {
		return err
	}
	err := command.Until(ready, 100*time.Millisecond, func() error { return t.Endpoint().prepare(ready) })
	if err != nil {
		return err
	}
	one := &series{target: t, fault: f, settings: s}
	for n := range rounds {
		r, err := one.one(ctx)
		if r.Acked > 0 {
			result.Rounds = append(result.Rounds, r)
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", n+1, err)
		}
		progress("%s %s round %d: gap %s, %d acknowledged, %d lost, %d stale, healthy after %s %s", t.Name(), f, n+1,
			seconds(r.Gap), r.Acked, r.Lost, r.Stale, seconds(r.Healthy), r.StaleSaid)
	}
	return nil
}

// progress goes to standard error, so that --json stays clean.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}
