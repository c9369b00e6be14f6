package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"text/tabwriter"

	"steward/bench/command"
)

// grower makes copies that replicas start with.
type grower interface {
	Target
	// grow makes the copies; shrink undoes that.
	grow(ctx context.Context) error
	shrink(ctx context.Context) error
}

// grow makes one copy, on the disk when it returns.
func (h *hand) grow(ctx context.Context) error {
	to := &node{hand: h, data: h.path("replica"), port: h.server.port}
	return h.pipeline(ctx, h.line("rm -rf $SPOOL; mkdir $SPOOL; "+h.replica, to))
}

func (h *hand) shrink(context.Context) error { return os.RemoveAll(h.path("replica")) }

// grow returns once two more nodes follow.
func (s *steward) grow(ctx context.Context) error { return s.haveNodes(ctx, 3) }

func (s *steward) shrink(ctx context.Context) error { return s.haveNodes(ctx, 1) }

func (s *steward) haveNodes(ctx context.Context, n int) error {
	if err := s.call(http.MethodPut, "", map[string]any{"cluster_size": n}, nil); err != nil {
		return err
	}
	return s.active(ctx)
}

// Growth is what the copies of one target took.
type Growth struct {
	Target string `json:"target"`
	Engine string `json:"engine"`
	Bytes  int64  `json:"bytes"`
	Idle   []Run  `json:"idle"`
	// Loads are under writers; Kept is the rate during a copy by the rate before.
	Loads []Load `json:"loads,omitempty"`
	// The medians by the floor's.
	ByFloor, LoadedByFloor Ratio
}

// growAll measures all engines that have a floor.
func (s settings) growAll(ctx context.Context, out io.Writer) error {
	var all []Growth
	for _, engine := range s.engines {
		measured, err := s.growOne(ctx, engine)
		if err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}
		all = append(all, measured...)
	}
	if s.json {
		return command.PrintJSON(out, all)
	}
	return printGrowth(out, all)
}

// growOne measures the floor and steward in turns.
func (s settings) growOne(ctx context.Context, engine string) (all []Growth, err error) {
	s.peers = false
	targets, err := s.startFilled(ctx, engine)
	defer closeAll(targets, &err)
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		all = append(all, Growth{Target: t.Name(), Engine: engine, Bytes: t.bytes})
	}
	for range s.rounds {
		for i, t := range targets {
			if err := s.growBeside(ctx, t.Target.(grower), &all[i], 0); err != nil {
				return all, fmt.Errorf("%s: %w", t.Name(), err)
			}
		}
	}
	for range s.rounds {
		for i, t := range targets {
			if s.writers == 0 {
				break
			}
			if err := s.growBeside(ctx, t.Target.(grower), &all[i], s.writers); err != nil {
				return all, fmt.Errorf("%s: %w", t.Name(), err)
			}
		}
	}
	compareGrowth(all)
	return all, ctx.Err()
}

// growBeside makes the copies beside so many writers. What writers have afterwards
// doesn't count: replicas use the processors, too.
func (s settings) growBeside(ctx context.Context, t grower, g *Growth, n int) error {
	if err := t.Server().quiet(ctx); err != nil {
		return err
	}
	if n == 0 {
		one, err := s.timed(ctx, t, t.grow)
		if err != nil {
			return err
		}
		g.Idle = append(g.Idle, one)
		progress("%s %s: %s", g.Engine, g.Target, one)
		return t.shrink(ctx)
	}
	w, err := startWriters(ctx, t.Server(), n)
	if err != nil {
		return err
	}
	defer func() { _ = w.stop() }() // who got there has been told
	command.Sleep(ctx, s.load/2)    // caches
	l := Load{Before: w.during(func() { command.Sleep(ctx, s.load) })}
	l.During = w.during(func() { l.Backup, err = s.timed(ctx, t, t.grow) })
	if err := errors.Join(err, w.stop()); err != nil {
		return err
	}
	l.Kept = l.During / l.Before
	g.Loads = append(g.Loads, l)
	progress("%s %s: %.0f writes a second, %.0f during %s: %.2f", g.Engine, g.Target, l.Before, l.During, l.Backup, l.Kept)
	return t.shrink(ctx)
}

// loaded are the runs under writers.
func (g Growth) loaded() []Run {
	var runs []Run
	for _, l := range g.Loads {
		runs = append(runs, l.Backup)
	}
	return runs
}

// compareGrowth sets the ratios; the floor stands before what is compared with it.
func compareGrowth(all []Growth) {
	var floor Growth
	for i := range all {
		g := &all[i]
		switch {
		case g.Target == floorName:
			floor = *g
		case g.Engine == floor.Engine:
			g.ByFloor, g.LoadedByFloor = by(middle(g.Idle), middle(floor.Idle)), by(middle(g.loaded()), middle(floor.loaded()))
		}
	}
}

func printGrowth(w io.Writer, all []Growth) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "engine\ttarget\tdata\tcopies\tby floor\tunder writers\tby floor\twriters keep")
	for _, g := range all {
		copies, kept := "two nodes", "-"
		if g.Target == floorName {
			copies = "one copy"
		}
		if len(g.Loads) > 0 {
			kept = fmt.Sprintf("%.2f", keptOf(g.Loads))
		}
		fmt.Fprintf(t, "%s\t%s\t%d MB\t%s: %.1f s\t%s\t%.1f s\t%s\t%s\n", g.Engine, g.Target, g.Bytes/1e6, copies, middle(g.Idle).Wall,
			ratio(g.ByFloor.Wall), middle(g.loaded()).Wall, ratio(g.LoadedByFloor.Wall), kept)
	}
	return t.Flush()
}

var _, _ grower = (*hand)(nil), (*steward)(nil)
