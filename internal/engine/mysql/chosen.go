package mysql

import (
	"context"
	"slices"
	"strconv"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/parameter"
)

// withChosen lays the settings that the customer chose over those of the plan.
func withChosen(all []setting, n engine.Node) []setting {
	for _, c := range n.Config.Values(n.Server()) {
		if c.Name == retention || c.Name == parameter.StatementStatistics {
			continue // see keep, and counts
		}
		s := setting{c.Setting(), c.Value, live}
		if f, ok := c.Value.(float64); ok {
			s.value = number(strconv.FormatFloat(f, 'f', 6, 64))
		} else if whole, ok := c.Value.(int64); ok && c.Type == parameter.Number {
			s.value = number(strconv.FormatInt(whole, 10) + ".000000")
		}
		if c.Restart {
			s.when = apart // the platform knows that a restart is due
		}
		all = laid(all, s)
		if tables, ok := c.Value.(int64); ok && s.name == "tmp_table_size" {
			all = withRoom(all, tables)
		}
	}
	return all
}

// unchosen has the running server forget what was chosen once: what isn't in its files
// any more is as if it had never been.
func (s *session) unchosen(ctx context.Context, n engine.Node, settings []setting) error {
	for _, p := range parameter.Of(string(cluster.MySQL)) {
		name := p.Setting()
		set := slices.ContainsFunc(settings, func(o setting) bool { return o.name == name })
		if set || p.Restart || name == retention || !p.OfferedOn(n.Server()) {
			continue
		}
		if err := s.exec(ctx, "SET GLOBAL "+name+" = DEFAULT"); err != nil {
			return err
		}
	}
	return nil
}

// laid are the settings with another one, in the place of that of its name.
func laid(all []setting, s setting) []setting {
	if i := slices.IndexFunc(all, func(o setting) bool { return o.name == s.name }); i >= 0 {
		all[i] = s
		return all
	}
	return append(all, s)
}

// withRoom gives MySQL's temporary tables as much memory as two of the size take.
func withRoom(all []setting, size int64) []setting {
	i := slices.IndexFunc(all, func(o setting) bool { return o.name == "temptable_max_ram" })
	if i < 0 {
		return all
	}
	if now, ok := all[i].value.(int64); ok && now < 2*size {
		all[i].value = 2 * size
	}
	return all
}

// retention is the parameter that is no setting of the server's.
const retention = "binlog_retention_period"

// keep is for how long logs stay that nobody needs any more.
func keep(n engine.Node) time.Duration {
	if seconds, ok := n.Config[retention].(int64); ok {
		return time.Duration(seconds) * time.Second
	}
	return keepArchived
}

// optionOf is what a configuration file calls a variable.
func optionOf(variable string) string {
	if variable == "time_zone" {
		return "default_time_zone"
	}
	return variable
}
