// Command monitor measures what checking services costs, and whether all are
// checked: by steward, and in the same run by a bare HTTP client released by the
// same tick, and by Debian's blackbox_exporter under Prometheus. `make
// bench-monitor` runs it; docs/performance.md says how to read it. Nothing here
// asserts a time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"steward/bench/command"
	"steward/internal/wait"
	"steward/test/harness"
)

// settings are the flags.
type settings struct {
	services, servers, broken, hanging int
	interval, duration                 time.Duration
	contenders, faults                 []string
	away, restart, json                bool
}

// The contenders.
const (
	bare     = "bare"
	steward  = "steward"
	blackbox = "blackbox"
)

// The faults that servers beside the first suffer.
const (
	kill9   = "kill9"
	stopped = "stop"
	cutOff  = "cut"
)

// storeAway is how long the store doesn't answer with -away.
const storeAway = time.Minute

func main() {
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		return
	}
	command.Main("monitor", parse, run)
}

func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("monitor", flag.ContinueOnError)
	f.SetOutput(out)
	f.IntVar(&s.services, "services", 1000, "services to check, up to 50000")
	f.DurationVar(&s.interval, "interval", 10*time.Second, "time between the checks of each")
	f.DurationVar(&s.duration, "duration", time.Minute, "how long is measured")
	f.IntVar(&s.servers, "servers", 1, "steward servers on one store")
	f.IntVar(&s.broken, "broken", 0, "services that break a third of the way and are mended at two thirds; mails are counted")
	contenders := f.String("contenders", "bare,steward,blackbox", "what is measured")
	faults := f.String("faults", "", "what the second and third server suffer again and again: kill9, stop (SIGSTOP beyond the lease), cut (from the store)")
	f.IntVar(&s.hanging, "hanging", 0, "services that take a connection and never answer")
	f.BoolVar(&s.away, "away", false, "stop the store's processes for a minute, after a quarter of the time")
	f.BoolVar(&s.restart, "restart", false, "kill the first server with -9 after a quarter of the time, and start it again")
	f.BoolVar(&s.json, "json", false, "print JSON instead of a table")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	s.contenders = strings.Split(*contenders, ",")
	if *faults != "" {
		s.faults = strings.Split(*faults, ",")
	}
	return s, s.validate(f.Args())
}

func (s settings) validate(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unknown: %s", strings.Join(rest, " "))
	}
	if err := checkWords("-contenders", s.contenders, bare, steward, blackbox); err != nil {
		return err
	}
	if err := checkWords("-faults", s.faults, kill9, stopped, cutOff); err != nil {
		return err
	}
	faulty := len(s.faults) > 0
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{s.services < 1 || s.services > 50_000, "-services must be 1-50000"},
		{s.interval < time.Second || s.duration < s.interval, "-interval must be 1s at least, and -duration an -interval at least"},
		{faulty && s.servers < 2, "-faults need -servers 2 or more: the first one suffers none"},
		{s.broken+s.hanging > s.services, "-broken and -hanging can't be more than -services"},
		{(s.away || s.restart) && faulty || s.away && s.restart, "-away, -restart and -faults are one at a time"},
		{s.away && s.duration < 2*storeAway, fmt.Sprintf("-away needs a -duration of %v at least", 2*storeAway)},
	} {
		if rule.broken {
			return errors.New(rule.text)
		}
	}
	return nil
}

// checkWords returns an error when one of a flag's words isn't among those there are.
func checkWords(flag string, words []string, all ...string) error {
	for _, word := range words {
		if !slices.Contains(all, word) {
			return fmt.Errorf("%s: there is no %q", flag, word)
		}
	}
	return nil
}

// line is a contender's result.
type line struct {
	Contender string
	found
	// CPU is in seconds per thousand checks, Store's share in it by itself; Ratio
	// is to the bare client's of the same run, 0 when that wasn't measured.
	CPU, Store, Ratio float64
	// Memory is the resident set in bytes, without the store's.
	Memory int64
	known
	// Mails came, Wanted should have: two for each service that broke.
	Mails, Wanted int
}

// known is what only steward's store can tell; zeros for the others.
type known struct {
	// Rest is the resident set before there were services, in bytes.
	Rest int64
	// History is what a check takes in the store's files, in bytes, indexes included.
	History float64
	// Told is the time from the check that decided to the mail being accepted, for
	// 99 % of the outages; Outage the longest from the outage itself.
	Told, Outage time.Duration
}

func run(ctx context.Context, s settings, out io.Writer) error {
	var lines []line
	for _, contender := range s.contenders {
		fmt.Fprintf(os.Stderr, "%s: %d services every %v, for %v\n", contender, s.services, s.interval, s.duration)
		l, err := measure(ctx, s, contender)
		if err != nil {
			return fmt.Errorf("%s: %w", contender, err)
		}
		if len(lines) > 0 && lines[0].Contender == bare {
			l.Ratio = l.CPU / lines[0].CPU
		}
		lines = append(lines, l)
	}
	if s.json {
		return command.PrintJSON(out, lines)
	}
	return table(out, s, lines)
}

func table(out io.Writer, s settings, lines []line) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tchecks\tof due\tdoubled\tlongest gap\tjitter p99\tcpu s/1000\tof it store\tratio\tMiB\tat rest\tbytes a check\tmails\tp99\toutage to mail")
	for _, l := range lines {
		ratio, mails, rest, history, told, outage := "-", "-", "-", "-", "-", "-"
		if l.Rest > 0 {
			rest, history = fmt.Sprint(l.Rest>>20), fmt.Sprintf("%.1f", l.History)
		}
		if l.Ratio > 0 {
			ratio = fmt.Sprintf("%.2f", l.Ratio)
		}
		if l.Wanted > 0 {
			mails = fmt.Sprintf("%d of %d", l.Mails, l.Wanted)
		}
		if l.Told > 0 {
			told, outage = l.Told.Round(time.Millisecond).String(), l.Outage.Round(time.Millisecond).String()
		}
		due := float64(s.services) * s.duration.Seconds() / s.interval.Seconds()
		fmt.Fprintf(t, "%s\t%d\t%.2f %%\t%d\t%v\t%v\t%.3f\t%.3f\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", l.Contender, l.Checks, float64(l.Checks)/due*100, l.Doubled,
			l.Longest.Round(time.Millisecond), l.Jitter.Round(time.Millisecond), l.CPU, l.Store, ratio, l.Memory>>20, rest, history, mails, told, outage)
	}
	return t.Flush()
}

// checker is a contender that runs.
type checker interface {
	// processes are those that cost, and those of its store.
	processes() (own, store []int)
	// mails are how many it sent.
	mails() int
	// suffer does the faults, for as long as ctx lasts.
	suffer(ctx context.Context) error
	// known is asked last of all.
	known(ctx context.Context, t *targets) (known, error)
}

// measure starts targets and contender, lets all be checked once, and looks.
func measure(ctx context.Context, s settings, contender string) (l line, err error) {
	outside := &harness.Outside{}
	defer func() { err = errors.Join(err, outside.Close()) }()
	var c checker
	var targets *targets
	if err := harness.Attempt(func() {
		targets = startTargets(outside, s)
		c = start(outside, s, contender, targets)
	}); err != nil {
		return l, err
	}
	if err := targets.awaitAll(ctx, s); err != nil {
		return l, err
	}
	select { // until all have had their turn: the first looks come at once
	case <-ctx.Done():
		return l, ctx.Err()
	case <-time.After(s.interval + time.Second):
	}
	own, store := c.processes()
	ownBefore, storeBefore := harness.CPUSeconds(own...), harness.CPUSeconds(store...)
	if err := targets.reset(); err != nil {
		return l, err
	}
	if err := pass(ctx, s, c, targets); err != nil {
		return l, err
	}
	l = line{Contender: contender, Wanted: 2*s.broken + s.hanging}
	if l.found, err = targets.report(s.interval); err != nil {
		return l, err
	}
	for _, pid := range own {
		l.Memory += harness.ResidentBytes(pid)
	}
	if len(s.faults) == 0 && l.Checks > 0 { // else processes came and went
		l.Store = (harness.CPUSeconds(store...) - storeBefore) / float64(l.Checks) * 1000
		l.CPU = (harness.CPUSeconds(own...)-ownBefore)/float64(l.Checks)*1000 + l.Store
	}
	if l.Wanted > 0 {
		l.Mails = awaitMails(ctx, c, l.Wanted)
	}
	if l.known, err = c.known(ctx, targets); err != nil {
		return l, err
	}
	return l, l.happened(s)
}

// happened is nil when there is something to report of: services were checked and,
// by who sends mails, those that broke were told of.
func (l line) happened(s settings) error {
	switch {
	case l.Checks == 0:
		return errors.New("nothing was checked")
	case l.Never > 0:
		return fmt.Errorf("%d of %d services were never checked", l.Never, s.services)
	case l.Contender == steward && l.Mails < l.Wanted:
		return fmt.Errorf("%d mails came, %d were due", l.Mails, l.Wanted)
	case l.Contender == steward && s.broken > 0 && l.Told == 0:
		return errors.New("no mail tells of a service that broke")
	}
	return nil
}

// pass lets the time go by that is measured, with what is to happen in it.
func pass(ctx context.Context, s settings, c checker, t *targets) error {
	ctx, cancel := context.WithTimeout(ctx, s.duration)
	defer cancel()
	suffered := make(chan error, 1)
	go func() { suffered <- c.suffer(ctx) }()
	third := s.duration / 3
	for _, broken := range []int{0, s.broken, 0} {
		if err := t.breakSome(broken); err != nil {
			return err
		}
		_ = wait.Sleep(ctx, third)
	}
	<-ctx.Done()
	if err := <-suffered; err != nil {
		return err
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	return nil
}

// awaitMails waits until all mails came, or none for a while.
func awaitMails(ctx context.Context, c checker, wanted int) int {
	const quiet = 15 * time.Second
	n, since := c.mails(), time.Now()
	for (n < wanted || time.Since(since) < quiet/3) && time.Since(since) < quiet && ctx.Err() == nil {
		_ = wait.Sleep(ctx, 100*time.Millisecond)
		if now := c.mails(); now != n {
			n, since = now, time.Now()
		}
	}
	return n
}
