package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"steward/client"
)

type usageCommand struct {
	apiFlags
	jsonFlag
	Since string `help:"The first day, UTC, such as 2026-01-31; the first of this month when left out." placeholder:"DAY"`
	By    string `help:"One line for each database, or for each entry: day, database, type and nodes." enum:"database,day" default:"database"`
}

func (f *usageCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	since := cmp.Or(f.Since, time.Now().UTC().Format("2006-01-")+"01")
	if _, err := time.Parse(time.DateOnly, since); err != nil {
		return fmt.Errorf("--since: %q is no day such as 2026-01-31", since)
	}
	all, err := c.Usage(ctx, since)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, append([]client.Usage{}, all...))
	}
	header := []string{"day", "database", "label", "engine", "type", "nodes", "hours", "suspended", "disk", "backups", "cost"}
	if f.By == "database" {
		all, header[0] = byDatabase(all), "since"
	}
	rows := make([][]string, len(all))
	for i, u := range all {
		cost := "-"
		if u.Cost != nil {
			cost = fmt.Sprintf("%.4f", *u.Cost)
		}
		rows[i] = []string{
			u.Day, fmt.Sprint(u.Database), u.Label, u.Engine, u.Type, fmt.Sprint(u.ClusterSize),
			fmt.Sprintf("%.2f", u.Hours), fmt.Sprintf("%.2f", u.SuspendedHours), megabytes(u.UsedDiskBytes), megabytes(u.BackupBytes), cost,
		}
	}
	return printTable(s.out, header, rows)
}

// byDatabase adds up what databases were while they had one type and one number of nodes. The day is the first.
func byDatabase(all []client.Usage) []client.Usage {
	type key struct {
		id    int64
		plan  string
		nodes int
	}
	sums := map[key]*client.Usage{}
	var order []key
	for _, u := range all {
		k := key{u.Database, u.Type, u.ClusterSize}
		sum := sums[k]
		if sum == nil {
			order = append(order, k)
			sums[k] = &u
			continue
		}
		sum.Hours, sum.SuspendedHours, sum.Day = sum.Hours+u.Hours, sum.SuspendedHours+u.SuspendedHours, min(sum.Day, u.Day)
		sum.UsedDiskBytes, sum.BackupBytes = max(sum.UsedDiskBytes, u.UsedDiskBytes), max(sum.BackupBytes, u.BackupBytes)
		if sum.Cost != nil && u.Cost != nil {
			total := *sum.Cost + *u.Cost
			sum.Cost = &total
		}
	}
	slices.SortFunc(order, func(a, b key) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(sums[a].Day, sums[b].Day)) })
	list := make([]client.Usage, len(order))
	for i, k := range order {
		list[i] = *sums[k]
	}
	return list
}
