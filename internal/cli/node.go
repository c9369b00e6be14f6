package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"steward/internal/cluster"
	"steward/internal/config"
	"steward/internal/doctor"
	"steward/internal/operator"
	"steward/internal/platform/host"
)

type nodeCommands struct {
	List nodeListCommand `cmd:"" help:"List the server processes."`
}

type nodeListCommand struct {
	dataFlag
	jsonFlag
	Cluster int64  `help:"Of this database only."`
	Role    string `help:"Of this role only: primary or replica." enum:",primary,replica" default:""`
	PID     bool   `name:"pid" help:"Print process ids alone, one a line."`
	Config  string `help:"Configuration file (YAML)." type:"existingfile"`
}

func (c *nodeListCommand) Run(ctx context.Context, s *streams) error {
	config, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	all, err := operator.Nodes(ctx, c.Data, config)
	if err != nil {
		return err
	}
	nodes := []host.NodeInfo{}
	for _, n := range all {
		if (c.Cluster == 0 || int64(n.Cluster) == c.Cluster) && (c.Role == "" || string(n.Role) == c.Role) {
			nodes = append(nodes, n)
		}
	}
	if c.JSON {
		return printJSON(s.out, nodes)
	}
	rows := make([][]string, len(nodes))
	for i, n := range nodes {
		if c.PID {
			if n.Running {
				fmt.Fprintln(s.out, n.Pid)
			}
			continue
		}
		state := "stopped"
		if n.Running {
			state = "running"
		}
		if n.Problem != "" {
			state += ": " + n.Problem
		}
		rows[i] = []string{
			fmt.Sprint(n.Cluster), fmt.Sprint(n.Ordinal), string(n.Role), n.Installation, fmt.Sprint(n.Pid), n.Address,
			lagOf(n), n.Position, failoverOf(n), state,
		}
	}
	if c.PID {
		return nil
	}
	return printTable(s.out, []string{"database", "node", "role", "server", "pid", "address", "lag", "position", "last failover", "state"}, rows)
}

// lagOf is how far a replica is behind.
func lagOf(n host.NodeInfo) string {
	switch {
	case n.Role != cluster.Replica:
		return ""
	case n.Joining:
		return "joining"
	case !n.Streaming:
		return "not following"
	}
	return fmt.Sprintf("%.1f s", n.LagSeconds)
}

func failoverOf(n host.NodeInfo) string {
	if n.LastFailover.IsZero() {
		return ""
	}
	return n.LastFailover.UTC().Format(time.RFC3339)
}

type doctorCommand struct {
	jsonFlag
	Config string `help:"Configuration file (YAML)." type:"existingfile"`
}

func (c *doctorCommand) Run(ctx context.Context, s *streams) error {
	config, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	r, err := doctor.Examine(ctx, config)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := printJSON(s.out, r); err != nil {
			return err
		}
	} else {
		printReport(s, r)
	}
	for _, m := range r.Missing {
		if m.Required {
			return fmt.Errorf("%s is missing", m.What)
		}
	}
	for _, region := range r.Regions {
		if !region.Usable() {
			return fmt.Errorf("the region %s can't have databases as it is", region.ID)
		}
	}
	return nil
}

func printReport(s *streams, r doctor.Report) {
	rows := make([][]string, len(r.Engines))
	for i, e := range r.Engines {
		rows[i] = []string{string(e.Family()) + "/" + e.Series, string(e.Flavour), e.Version, e.Builder, e.Home}
	}
	_ = printTable(s.out, []string{"engine", "server", "version", "builder", "home"}, rows) // nobody to tell
	fmt.Fprintf(s.out, "\ncontrol groups: %s   bubblewrap: %v   users of their own: %v\n", r.Isolation.ControlGroups, r.Isolation.Bubblewrap, r.Isolation.OwnUsers)
	if g := r.Gateway; g.Fault != "" {
		fmt.Fprintln(s.out, "gateway: none can be used:", g.Fault)
	} else {
		fmt.Fprintf(s.out, "gateway: %s: %s\n", g.Driver, g.Why)
		if g.Most > 0 {
			fmt.Fprintf(s.out, "connections that the kernel tracks: %d of %d\n", g.Tracked, g.Most)
		}
	}
	for _, w := range r.Isolation.Warnings {
		fmt.Fprintln(s.out, "weaker:", w)
	}
	for _, m := range r.Missing {
		fmt.Fprintf(s.out, "missing: %s (for %s): %s\n", m.What, m.Why, m.Install)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(s.out, "note:", n)
	}
	if len(r.Missing) == 0 {
		fmt.Fprintln(s.out, "Nothing is missing.")
	}
	for _, region := range r.Regions {
		printRegion(s, region)
	}
}

func printRegion(s *streams, r doctor.Region) {
	if !r.Reachable {
		fmt.Fprintf(s.out, "\nregion %s (%s): can't be reached: %s\n", r.ID, r.Platform, r.Fault)
		return
	}
	fmt.Fprintf(s.out, "\nregion %s (%s): Kubernetes %s, CloudNativePG %s\n", r.ID, r.Platform, cmp.Or(r.Version, "unknown"), cmp.Or(r.Operator, "unknown"))
	for _, f := range r.Missing {
		fmt.Fprintf(s.out, "missing: %s: %s\n", f.What, f.Command)
	}
	for _, f := range r.Notes {
		fmt.Fprintf(s.out, "note: %s: %s\n", f.What, f.Command)
	}
	if len(r.Missing) == 0 {
		fmt.Fprintln(s.out, "Nothing is missing there.")
	}
}
