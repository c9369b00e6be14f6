package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/config"
	"steward/internal/operator"
	"steward/internal/recovery"
)

// recoverCommand is for the day on which a server is gone and its bucket isn't.
type recoverCommand struct {
	dataFlag
	jsonFlag
	Backups string        `required:"" help:"The lost server's backups: a folder, or the URL of an object store."`
	SealKey string        `name:"seal-key" help:"The lost server's seal.key, or the URL of its key service; by default that of --data."`
	List    bool          `help:"Only say what is there; makes and changes nothing."`
	Cluster []int64       `help:"Id of a database to bring back; may be repeated. All that weren't deleted by default."`
	Backup  int64         `help:"Id of the backup to restore, with one --cluster; its newest complete one by default."`
	Wait    time.Duration `help:"How long to wait for a server that runs; 0 doesn't wait." default:"12h"`
	Store   string        `help:"PostgreSQL URL of the new server's store, when it isn't steward's own."`
	Config  string        `help:"The new server's configuration file (YAML)." type:"existingfile"`
}

func (c *recoverCommand) Run(ctx context.Context, s *streams) error {
	if c.Backup != 0 && len(c.Cluster) != 1 {
		return errors.New("--backup goes with exactly one --cluster")
	}
	config, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	if c.List {
		return c.list(ctx, s, config)
	}
	r, err := operator.OpenRecovery(ctx, operator.RecoverOptions{
		Data: c.Data, Store: c.Store, Archive: c.Backups, SealKey: c.SealKey, Config: config,
	})
	if err != nil {
		return err
	}
	defer r.Close(ctx)
	all, err := c.chosen(r.Found)
	if err != nil {
		return err
	}
	begun, failed := c.begin(ctx, s, r, all)
	if len(begun) > 0 && !r.Served() {
		fmt.Fprintf(s.out, "The data comes back when the server is started: steward serve --data %s --backups '%s'\n", c.Data, c.Backups)
	} else if c.Wait > 0 {
		failed = c.await(ctx, s, r, begun) || failed
	}
	if failed {
		return errSaid
	}
	return nil
}

// chosen are the databases asked for.
func (c *recoverCommand) chosen(all []recovery.Found) ([]recovery.Found, error) {
	if len(c.Cluster) == 0 {
		return slices.DeleteFunc(all, func(f recovery.Found) bool { return f.Record.Deleted != nil }), nil
	}
	var chosen []recovery.Found
	for _, id := range c.Cluster {
		i := slices.IndexFunc(all, func(f recovery.Found) bool { return f.Cluster == cluster.ID(id) })
		if i < 0 {
			return nil, fmt.Errorf("there is no complete backup of a database %d in %s", id, c.Backups)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// begin records the databases; what is in the way of one doesn't stop the others.
func (c *recoverCommand) begin(ctx context.Context, s *streams, r *operator.Recovery, all []recovery.Found) (begun []cluster.Cluster, failed bool) {
	for _, f := range all {
		o, err := r.Recover(ctx, f, backup.ID(c.Backup))
		switch {
		case err != nil:
			failed = true
			fmt.Fprintln(s.err, "steward:", err)
		case o.Begun:
			fmt.Fprintf(s.out, "%s (%d): backup %d is being restored, port %d.\n", o.Label, o.ID, o.Backup, o.Port)
			begun = append(begun, o.Cluster)
		case o.Status == cluster.Restoring:
			fmt.Fprintf(s.out, "%s (%d): was begun before, port %d.\n", o.Label, o.ID, o.Port)
			begun = append(begun, o.Cluster)
		default:
			fmt.Fprintf(s.out, "%s (%d) is here already, and %s.\n", o.Label, o.ID, o.Status)
		}
	}
	return begun, failed
}

func (c *recoverCommand) await(ctx context.Context, s *streams, r *operator.Recovery, begun []cluster.Cluster) (failed bool) {
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	for _, d := range begun {
		said := ""
		now, why, err := r.Await(ctx, d, func(percent int, message string) {
			if line := fmt.Sprintf("%s: %d %% %s", d.Label, percent, message); line != said {
				said = line
				fmt.Fprintln(s.err, line)
			}
		})
		switch {
		case err != nil:
			failed = true
			fmt.Fprintf(s.err, "steward: %s: %v\n", d.Label, err)
		case now.Status == cluster.Failed:
			failed = true
			fmt.Fprintf(s.err, "steward: %s has failed: %s\n", d.Label, why)
		default:
			fmt.Fprintf(s.out, "%s is %s at %s:%d.\n", now.Label, now.Status, now.Hosts.Primary, now.Port)
		}
	}
	return failed
}

// foundView is a database of the bucket as --json shows it.
type foundView struct {
	ID       int64       `json:"id"`
	Label    string      `json:"label"`
	Engine   string      `json:"engine"`
	Type     string      `json:"type"`
	Nodes    int         `json:"cluster_size"`
	Backups  []backup.ID `json:"backups"`
	Taken    time.Time   `json:"newest_taken"`
	Size     int64       `json:"newest_bytes"`
	Deleted  *time.Time  `json:"deleted,omitempty"`
	Problems string      `json:"problem,omitempty"`
}

func (c *recoverCommand) list(ctx context.Context, s *streams, config config.Config) error {
	lost, err := operator.OpenLostServer(ctx, c.Data, c.Backups, c.SealKey, config)
	if err != nil {
		return err
	}
	defer lost.Close()
	all, err := lost.Recoverer().List(ctx)
	if err != nil {
		return err
	}
	views := make([]foundView, len(all))
	for i, f := range all {
		m := f.Newest
		views[i] = foundView{
			ID: int64(f.Cluster), Label: cmp.Or(f.Record.Label, m.Database), Engine: string(m.Engine) + "/" + m.Series, Type: f.Record.Type,
			Nodes: f.Record.Size, Backups: f.Backups, Taken: m.Created, Size: m.Bytes, Deleted: f.Record.Deleted,
		}
		if f.Problem != nil {
			views[i].Problems = f.Problem.Error()
		}
	}
	if c.JSON {
		return printJSON(s.out, views)
	}
	rows := make([][]string, len(views))
	for i, v := range views {
		rows[i] = []string{
			fmt.Sprint(v.ID), v.Label, v.Engine, v.Type, fmt.Sprint(v.Nodes), fmt.Sprint(len(v.Backups)),
			fmt.Sprint(v.Backups[0]), v.Taken.UTC().Format(time.RFC3339), megabytes(v.Size), v.state(),
		}
	}
	return printTable(s.out, []string{"id", "label", "engine", "type", "nodes", "backups", "newest", "taken", "size", "state"}, rows)
}

func (v foundView) state() string {
	switch {
	case v.Problems != "":
		return v.Problems
	case v.Deleted != nil:
		return "deleted " + v.Deleted.UTC().Format(time.RFC3339) + "; comes back with --cluster only"
	}
	return "can be recovered"
}
