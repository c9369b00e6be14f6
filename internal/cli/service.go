package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"steward/client"
)

type serviceCommands struct {
	List    serviceListCommand    `cmd:"" help:"List the services."`
	View    serviceViewCommand    `cmd:"" help:"Show one service."`
	Create  serviceCreateCommand  `cmd:"" help:"Have a service monitored."`
	Update  serviceUpdateCommand  `cmd:"" help:"Change a service; what isn't named stays."`
	Disable serviceDisableCommand `cmd:"" help:"Stop its checks for the time being."`
	Enable  serviceEnableCommand  `cmd:"" help:"Check a disabled service again."`
	Delete  serviceDeleteCommand  `cmd:"" help:"Stop its checks for good."`
	Check   serviceCheckCommand   `cmd:"" help:"Have one be checked now."`
	Checks  serviceChecksCommand  `cmd:"" help:"Show response times, uptime and the newest checks."`
}

type serviceArg struct {
	Service string `arg:"" help:"Id or label."`
}

func (a serviceArg) findService(ctx context.Context, c *client.Client) (client.Service, error) {
	return c.FindService(ctx, a.Service)
}

// serviceFlags are what can be said of a service beside label, type and address.
type serviceFlags struct {
	Body       *string  `help:"Text that the answer must contain; '' for none."`
	Group      *string  `help:"Group of the contacts to be told; '' for all."`
	Credential *[]int64 `help:"Id of a credential for those who mend it; may be repeated."`
	Notes      *string  `help:"For those who mend it; '' for none."`
	Region     *string  `help:"Required for private addresses; '' for none."`
	Interval   *int     `help:"Seconds between checks; 0: as the operator has set."`
}

func (f serviceFlags) change() client.ServiceChange {
	return client.ServiceChange{
		Body: f.Body, ConsultationGroup: f.Group, Credentials: f.Credential, Notes: f.Notes, Region: f.Region, Interval: f.Interval,
	}
}

func printServices(s *streams, all []client.Service, asJSON bool) error {
	return printList(s.out, all, asJSON, []string{"id", "label", "type", "address", "status", "since", "found"}, func(v client.Service) []string {
		return []string{fmt.Sprint(v.ID), v.Label, v.ServiceType, v.Address, v.Status, v.StatusSince, cmp.Or(v.StatusReason, "-")}
	})
}

type serviceListCommand struct {
	apiFlags
	jsonFlag
}

func (f *serviceListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.Services(ctx)
	if err != nil {
		return err
	}
	return printServices(s, all, f.JSON)
}

type serviceViewCommand struct {
	apiFlags
	jsonFlag
	serviceArg
}

func (f *serviceViewCommand) Run(_ context.Context, s *streams, _ *client.Client, found client.Service) error {
	return printOne(s, found, f.JSON, printServices)
}

type serviceCreateCommand struct {
	apiFlags
	jsonFlag
	serviceFlags
	Label   string `arg:"" help:"The service's label."`
	Address string `arg:"" help:"http or https URL, or host:port."`
	Timeout int    `default:"10" help:"Seconds a check may take."`
}

func (f *serviceCreateCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	in := f.change()
	in.Label, in.Address, in.Timeout, in.ServiceType = &f.Label, &f.Address, &f.Timeout, new(typeOf(f.Address))
	made, err := c.CreateService(ctx, in)
	if err != nil {
		return err
	}
	return printOne(s, made, f.JSON, printServices)
}

// typeOf is the type that an address is written for.
func typeOf(address string) string {
	for _, scheme := range []string{"http://", "https://"} {
		if len(address) > len(scheme) && address[:len(scheme)] == scheme {
			return "url"
		}
	}
	return "tcp"
}

type serviceUpdateCommand struct {
	apiFlags
	jsonFlag
	serviceArg
	serviceFlags
	Label   *string `help:"New label."`
	Address *string `help:"New address."`
	Timeout *int    `help:"Seconds a check may take."`
}

func (f *serviceUpdateCommand) Run(ctx context.Context, s *streams, c *client.Client, found client.Service) error {
	in := f.change()
	in.Label, in.Address, in.Timeout = f.Label, f.Address, f.Timeout
	if f.Address != nil {
		in.ServiceType = new(typeOf(*f.Address))
	}
	changed, err := c.UpdateService(ctx, found, in)
	if err != nil {
		return err
	}
	return printOne(s, changed, f.JSON, printServices)
}

type serviceDisableCommand struct {
	apiFlags
	jsonFlag
	serviceArg
}

func (f *serviceDisableCommand) Run(ctx context.Context, s *streams, c *client.Client, found client.Service) error {
	changed, err := c.DisableService(ctx, found)
	if err != nil {
		return err
	}
	return printOne(s, changed, f.JSON, printServices)
}

type serviceEnableCommand struct {
	apiFlags
	jsonFlag
	serviceArg
}

func (f *serviceEnableCommand) Run(ctx context.Context, s *streams, c *client.Client, found client.Service) error {
	changed, err := c.EnableService(ctx, found)
	if err != nil {
		return err
	}
	return printOne(s, changed, f.JSON, printServices)
}

type serviceDeleteCommand struct {
	apiFlags
	serviceArg
}

func (f *serviceDeleteCommand) Run(ctx context.Context, s *streams, c *client.Client, found client.Service) error {
	if err := c.DeleteService(ctx, found); err != nil {
		return err
	}
	fmt.Fprintln(s.out, found.Label, "is deleted.")
	return nil
}

type serviceCheckCommand struct {
	apiFlags
	serviceArg
}

func (f *serviceCheckCommand) Run(ctx context.Context, s *streams, c *client.Client, found client.Service) error {
	if err := c.CheckService(ctx, found); err != nil {
		return err
	}
	fmt.Fprintln(s.out, found.Label, "is checked within seconds: steward service checks shows what was found.")
	return nil
}

type serviceChecksCommand struct {
	apiFlags
	jsonFlag
	serviceArg
	Most int `default:"20" help:"How many of the newest checks are listed; up to 500."`
}

func (f *serviceChecksCommand) Run(ctx context.Context, s *streams, c *client.Client, found client.Service) error {
	checks, err := c.ServiceChecks(ctx, found)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, checks)
	}
	var times []*float64
	for _, check := range slices.Backward(checks.Data) {
		times = append(times, &check.ResponseTime)
	}
	if len(times) > 0 {
		fmt.Fprintf(s.out, "Response times of the last %d checks: %s\n\n", len(times), spark(times, sparkWidth))
	}
	spans := [][]string{uptimeRow("24 hours", checks.Day), uptimeRow("7 days", checks.Week), uptimeRow("30 days", checks.Month)}
	if err := printTable(s.out, []string{"last", "uptime", "checks", "failures", "mean", "longest"}, spans); err != nil {
		return err
	}
	newest := checks.Data[:min(len(checks.Data), max(f.Most, 0))]
	rows := make([][]string, len(newest))
	for i, check := range newest {
		rows[i] = []string{check.Started, check.Result, milliseconds(check.ResponseTime)}
	}
	fmt.Fprintln(s.out)
	return printTable(s.out, []string{"started", "result", "took"}, rows)
}

func uptimeRow(span string, u client.Uptime) []string {
	percent := "-"
	if u.Uptime != nil {
		percent = fmt.Sprintf("%.3f %%", *u.Uptime)
	}
	return []string{span, percent, fmt.Sprint(u.Checks), fmt.Sprint(u.Failures), milliseconds(u.Mean), milliseconds(u.Longest)}
}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.0f ms", seconds*1000) }
