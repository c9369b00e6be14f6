package control

import (
	"strings"

	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/parameter"
)

// configure gives a spec the settings that are asked for beside those it has. What
// they need of the plan's memory is judged when they, or the plan, aren't as before.
func (s *Clusters) configure(spec *cluster.Spec, before cluster.Spec, asked map[string]any) fault.Faults {
	server := s.server(*spec)
	config, faults := spec.Config.Merge(asked, server)
	spec.Config = config
	if len(faults) > 0 || config.Text() == before.Config.Text() && spec.Type == before.Type {
		return faults
	}
	return config.Fits(server)
}

// server is what values are judged for.
func (s *Clusters) server(spec cluster.Spec) parameter.Server {
	plan, _ := s.Catalog.Plan(spec.Type)
	offered, _ := s.Catalog.Abilities(spec.Region).Engine(spec.Engine, spec.Series)
	server := parameter.Server{
		Family: string(spec.Engine), Series: spec.Series, Type: spec.Type,
		MemoryMB: plan.MemoryMB, DiskMB: plan.DiskMB, VCPUs: plan.VCPUs, Libraries: offered.Libraries,
	}
	switch {
	case spec.Encrypted:
		server.Unlogged = "Statements of an encrypted database aren't logged: they would lie on the disk in the clear"
	case !s.Catalog.For(spec.Region, spec.Engine).Logs:
		server.Unlogged = "Logs of databases in this region can't be read here"
	}
	return server
}

// restartNote says for which settings servers are restarted, and how; "" for none.
func restartNote(before, after cluster.Spec) string {
	names := after.Config.Restarts(before.Config, string(after.Engine))
	switch {
	case len(names) == 0:
		return ""
	case after.Size == 1:
		return "The server was restarted for " + strings.Join(names, ", ") + "."
	case before.Config.Lowers(after.Config, string(after.Engine)):
		return "All servers were restarted, the primary in place, for " + strings.Join(names, ", ") + "."
	}
	return "All servers were restarted, the primary after it handed over to a replica, for " + strings.Join(names, ", ") + "."
}
