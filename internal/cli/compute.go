package cli

import (
	"cmp"
	"context"
	"fmt"

	"steward/client"
	"steward/internal/config"
	"steward/internal/operator"
	"steward/internal/sshlogin"
)

type computeCommands struct {
	Add      computeAddCommand      `cmd:"" help:"Register a machine by its node_exporter (operators)."`
	List     computeListCommand     `cmd:"" help:"List the machines of all accounts (operators)."`
	Remove   computeRemoveCommand   `cmd:"" help:"Remove a machine, with what is known of its load (operators)."`
	Check    computeCheckCommand    `cmd:"" help:"Try to log in to a machine as staff do, with its account's key (operators)."`
	Settings computeSettingCommands `cmd:"" help:"How staff log in to the machines, over the API."`
}

// storeFlags are embedded in operators' commands that open the store.
type storeFlags struct {
	dataFlag
	Store string `help:"PostgreSQL URL of the store, when it isn't steward's own."`
}

func (f storeFlags) open(ctx context.Context) (*operator.Access, error) {
	return operator.OpenAccess(ctx, f.Data, f.Store)
}

type computeAddCommand struct {
	storeFlags
	Label   string `arg:"" help:"Its name, as the API shows it."`
	Source  string `required:"" help:"URL of its node_exporter, such as http://host:9100/metrics."`
	Group   string `help:"For display only."`
	Account string `help:"Whose machine it is; the first account's by default."`
}

func (c *computeAddCommand) Run(ctx context.Context, s *streams, access *operator.Access) error {
	made, err := access.AddMachine(ctx, c.Account, c.Label, c.Source, c.Group)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s is registered with id %d.\n", made.Label, made.ID)
	return nil
}

// computeView is a machine as operators see it with --json.
type computeView struct {
	ID      int64  `json:"id"`
	Account int64  `json:"account"`
	Label   string `json:"label"`
	Group   string `json:"group"`
	Source  string `json:"source"`
}

type computeListCommand struct {
	storeFlags
	jsonFlag
}

func (c *computeListCommand) Run(ctx context.Context, s *streams, access *operator.Access) error {
	all, err := access.Machines(ctx)
	if err != nil {
		return err
	}
	views, rows := make([]computeView, len(all)), make([][]string, len(all))
	for i, m := range all {
		views[i] = computeView{int64(m.ID), int64(m.Account), m.Label, m.Group, m.Source}
		rows[i] = []string{fmt.Sprint(m.ID), fmt.Sprint(m.Account), m.Label, cmp.Or(m.Group, "-"), cmp.Or(m.Source, "a steward server itself")}
	}
	if c.JSON {
		return printJSON(s.out, views)
	}
	return printTable(s.out, []string{"id", "account", "label", "group", "source"}, rows)
}

type computeRemoveCommand struct {
	storeFlags
	Machine string `arg:"" help:"Id, or label when no other account has it."`
}

func (c *computeRemoveCommand) Run(ctx context.Context, s *streams, access *operator.Access) error {
	gone, err := access.RemoveMachine(ctx, c.Machine)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, gone.Label, "is removed.")
	return nil
}

type computeSettingCommands struct {
	List   computeSettingsListCommand   `cmd:"" help:"List how staff log in to the machines."`
	Update computeSettingsUpdateCommand `cmd:"" help:"Change how staff log in to a machine."`
}

type computeSettingsListCommand struct {
	apiFlags
	jsonFlag
}

func (f *computeSettingsListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.Computes(ctx)
	if err != nil {
		return err
	}
	return printComputes(s, all, f.JSON)
}

func printComputes(s *streams, all []client.Compute, asJSON bool) error {
	return printList(s.out, all, asJSON, []string{"id", "label", "group", "access", "user", "ip", "port"}, func(m client.Compute) []string {
		access, user, port := "no", "root", 22
		if m.SSH.Access {
			access = "yes"
		}
		if m.SSH.User != nil {
			user = *m.SSH.User
		}
		if m.SSH.Port != nil {
			port = *m.SSH.Port
		}
		return []string{fmt.Sprint(m.ID), m.Label, cmp.Or(m.Group, "-"), access, user, m.SSH.IP, fmt.Sprint(port)}
	})
}

type computeSettingsUpdateCommand struct {
	apiFlags
	Machine string  `arg:"" help:"Id or label."`
	Access  *bool   `help:"Whether staff may log in." negatable:""`
	User    *string `help:"User to log in as."`
	IP      *string `name:"ip" help:"Address to log in at, or any."`
	Port    *int    `help:"Port to log in at."`
}

func (f *computeSettingsUpdateCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	machine, err := c.FindCompute(ctx, f.Machine)
	if err != nil {
		return err
	}
	changed, err := c.UpdateSSH(ctx, machine, client.UpdateSSH{Access: f.Access, User: f.User, IP: f.IP, Port: f.Port})
	if err != nil {
		return err
	}
	return printComputes(s, []client.Compute{changed}, false)
}

type computeCheckCommand struct {
	storeFlags
	jsonFlag
	Machine    string `arg:"" help:"Id, or label when no other account has it."`
	NewHostKey bool   `help:"Take another host key than the known one: the machine was set up anew."`
	Config     string `help:"Configuration file (YAML)." type:"existingfile"`
}

// checkView is what a check found, for --json.
type checkView struct {
	ID    int64           `json:"id"`
	Label string          `json:"label"`
	User  string          `json:"user"`
	OK    bool            `json:"ok"`
	Steps []sshlogin.Step `json:"steps"`
}

func (c *computeCheckCommand) Run(ctx context.Context, s *streams) error {
	config, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	machine, report, err := operator.CheckMachine(ctx, c.Data, c.Store, config, c.Machine, c.NewHostKey)
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(s.out, checkView{int64(machine.ID), machine.Label, machine.SSH.Login(), report.OK(), report.Steps})
	} else {
		for _, step := range report.Steps {
			word := "ok"
			if !step.OK {
				word = "FAILED"
			}
			fmt.Fprintf(s.out, "%-8s  %-6s  %s\n", step.Name, word, step.Detail)
		}
	}
	if err == nil && !report.OK() {
		return errSaid
	}
	return err
}
