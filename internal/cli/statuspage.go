package cli

import (
	"context"
	"fmt"
	"strings"

	"steward/client"
)

type statusPageCommands struct {
	List   statusPageListCommand   `cmd:"" help:"List the status pages."`
	View   statusPageViewCommand   `cmd:"" help:"Show one."`
	Create statusPageCreateCommand `cmd:"" help:"Publish one."`
	Update statusPageUpdateCommand `cmd:"" help:"Change one; what isn't named stays."`
	Delete statusPageDeleteCommand `cmd:"" help:"Take one away."`
}

type statusPageArg struct {
	Page string `arg:"" help:"Id or slug."`
}

func (a statusPageArg) findStatusPage(ctx context.Context, c *client.Client) (client.StatusPage, error) {
	return c.FindStatusPage(ctx, a.Page)
}

// statusPageFlags are what can be said of a page beside slug and title.
type statusPageFlags struct {
	Service       *[]string `sep:"none" help:"Service that it shows, by id or label; may be given again."`
	Database      *[]string `sep:"none" help:"Database that it shows, by id or label; may be given again."`
	Days          *int      `help:"Of how many days it tells, up to 400."`
	ResponseTimes *bool     `negatable:"" help:"Show how long checks took."`
}

// change is what the flags ask for, with ids in place of labels.
func (f statusPageFlags) change(ctx context.Context, c *client.Client) (client.StatusPageChange, error) {
	in := client.StatusPageChange{Days: f.Days, ShowResponseTimes: f.ResponseTimes}
	if f.Service != nil {
		ids := []int64{}
		for _, text := range *f.Service {
			found, err := c.FindService(ctx, text)
			if err != nil {
				return in, err
			}
			ids = append(ids, found.ID)
		}
		in.Services = &ids
	}
	if f.Database != nil {
		ids := []int64{}
		for _, text := range *f.Database {
			found, err := c.Find(ctx, text)
			if err != nil {
				return in, err
			}
			ids = append(ids, found.ID)
		}
		in.Databases = &ids
	}
	return in, nil
}

func printStatusPages(s *streams, all []client.StatusPage, asJSON bool) error {
	return printList(s.out, all, asJSON, []string{"id", "slug", "title", "services", "databases", "days", "address"}, func(p client.StatusPage) []string {
		return []string{
			fmt.Sprint(p.ID), p.Slug, p.Title, strings.Trim(fmt.Sprint(p.Services), "[]"), strings.Trim(fmt.Sprint(p.Databases), "[]"), fmt.Sprint(p.Days), "/status/" + p.Slug,
		}
	})
}

type statusPageListCommand struct {
	apiFlags
	jsonFlag
}

func (f *statusPageListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.StatusPages(ctx)
	if err != nil {
		return err
	}
	return printStatusPages(s, all, f.JSON)
}

type statusPageViewCommand struct {
	apiFlags
	jsonFlag
	statusPageArg
}

func (f *statusPageViewCommand) Run(_ context.Context, s *streams, _ *client.Client, found client.StatusPage) error {
	return printOne(s, found, f.JSON, printStatusPages)
}

type statusPageCreateCommand struct {
	apiFlags
	jsonFlag
	statusPageFlags
	Slug  string `arg:"" help:"Where it is: /status/SLUG. Small letters, digits and single hyphens."`
	Title string `required:"" help:"What stands at its top."`
}

func (f *statusPageCreateCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	in, err := f.change(ctx, c)
	if err != nil {
		return err
	}
	in.Slug, in.Title = &f.Slug, &f.Title
	made, err := c.CreateStatusPage(ctx, in)
	if err != nil {
		return err
	}
	return printOne(s, made, f.JSON, printStatusPages)
}

type statusPageUpdateCommand struct {
	apiFlags
	jsonFlag
	statusPageArg
	statusPageFlags
	Slug  *string `help:"New slug."`
	Title *string `help:"New title."`
}

func (f *statusPageUpdateCommand) Run(ctx context.Context, s *streams, c *client.Client, found client.StatusPage) error {
	in, err := f.change(ctx, c)
	if err != nil {
		return err
	}
	in.Slug, in.Title = f.Slug, f.Title
	changed, err := c.UpdateStatusPage(ctx, found, in)
	if err != nil {
		return err
	}
	return printOne(s, changed, f.JSON, printStatusPages)
}

type statusPageDeleteCommand struct {
	apiFlags
	statusPageArg
}

func (f *statusPageDeleteCommand) Run(ctx context.Context, s *streams, c *client.Client, found client.StatusPage) error {
	if err := c.DeleteStatusPage(ctx, found); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "The status page", found.Slug, "is gone.")
	return nil
}
