// Command backup measures how long backup and restore take, what processor time
// and memory they use, and what they leave writers: steward, in the same run the
// servers' own tools in a pipeline by hand, and pgBackRest. `make bench-backup`
// runs it; docs/performance.md says how to read it. Nothing here asserts a time.
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
	"steward/test/harness"
)

// settings are the flags.
type settings struct {
	engines   []string
	gigabytes float64
	rounds    int
	writers   int
	load      time.Duration
	peers     bool
	restores  bool
	plan      string
	atOnce    int
	nodes     bool
	s3        bool
	deadline  time.Duration
	json      bool
}

func main() {
	command.Main("backup", parse, run)
}

func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("backup", flag.ContinueOnError)
	f.SetOutput(out)
	engines := f.String("engine", "postgresql/15,mysql/10.11", "engines, as the API names them; mysql/9.7 is measured without a floor")
	f.Float64Var(&s.gigabytes, "size", 2, "about how many GB of data")
	f.IntVar(&s.rounds, "rounds", 3, "backups and restores of each target; the median counts")
	f.IntVar(&s.writers, "writers", 4, "writers in the backup under load; 0 leaves that out")
	f.DurationVar(&s.load, "load", 10*time.Second, "load before and after the backup under load")
	f.BoolVar(&s.peers, "peers", true, "measure pgBackRest too")
	f.BoolVar(&s.restores, "restore", true, "measure restores too")
	f.StringVar(&s.plan, "plan", "g6-dedicated-2", "plan of steward's database; one with less than two cores slows the server")
	f.IntVar(&s.atOnce, "at-once", 1, "with more than one, measure steward alone: the memory it takes for as many backups at once, and restores")
	f.BoolVar(&s.nodes, "nodes", false, "measure instead how long two more nodes take beside one copy by the server's own tool, and what writers keep")
	f.BoolVar(&s.s3, "s3", false, "keep steward's backups in an S3 server of this program's own, in its memory, and not in a folder")
	f.DurationVar(&s.deadline, "deadline", 15*time.Minute, "how long a single step may take")
	f.BoolVar(&s.json, "json", false, "print JSON instead of a table")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	s.engines = strings.Split(*engines, ",")
	if f.NArg() > 0 {
		return s, fmt.Errorf("unknown: %s", strings.Join(f.Args(), " "))
	}
	if s.gigabytes <= 0 || s.rounds < 1 || s.atOnce < 1 || s.writers < 0 {
		return s, errors.New("-size, -rounds and -at-once must be positive, and -writers not negative")
	}
	return s, nil
}

// run measures all engines; one that fails doesn't keep the others from it.
func run(ctx context.Context, s settings, out io.Writer) error {
	defer harness.RemoveBinaries()
	if s.nodes {
		return s.growAll(ctx, out)
	}
	var results []Result
	var errs []error
	for _, engine := range s.engines {
		measured, err := s.measure(ctx, engine)
		results = append(results, measured...)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", engine, err))
		}
	}
	compare(results)
	if s.json {
		return errors.Join(append(errs, command.PrintJSON(out, results))...)
	}
	return errors.Join(append(errs, printTable(out, results))...)
}

// progress goes to standard error, so that --json stays clean.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}
