package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"steward/internal/app"
	"steward/internal/config"
	"steward/internal/operator"
)

// dataFlag is embedded in the operators' commands.
type dataFlag struct {
	Data string `help:"Folder with all of steward's state." default:"./data" type:"path"`
}

type serveCommand struct {
	dataFlag
	Listen  string   `help:"Address of the API." default:"127.0.0.1:8080"`
	Roles   []string `help:"What the process does, of api and console, with commas between. api is the API with the work on databases, the checks and public status pages, which are one and can't be left out; without console there are no pages for people at /console/, and nobody can log in to it. console.enabled: false has the same effect." default:"api,console" enum:"api,console"`
	Metrics *string  `help:"Address of /metrics, for Prometheus, by default that of metrics.listen, 127.0.0.1:9180; \"\" for none. Whoever reaches it reads the names of all databases."`
	Store   string   `help:"PostgreSQL URL of the store; by default steward runs one of its own below the data folder."`
	Backups string   `help:"Where backups are kept: a folder, or the URL of a bucket that speaks the S3 protocol (s3://); by default a folder below the data folder."`
	Config  string   `help:"Configuration file (YAML)." type:"existingfile"`
	Demo    bool     `help:"On an empty store, make one small PostgreSQL database and print how to reach it."`
	Debug   bool     `help:"Log every step."`
}

func (c *serveCommand) Run(ctx context.Context, s *streams) error {
	config, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	if !slices.Contains(c.Roles, "api") {
		return errors.New("--roles: api can't be left out: the console asks the API of its own process")
	}
	if !slices.Contains(c.Roles, "console") {
		config.Console.Enabled = false
	}
	if c.Metrics != nil {
		config.Metrics.Listen = *c.Metrics
	}
	return app.Serve(ctx, app.Options{
		Data: c.Data, Listen: c.Listen, Store: c.Store, Archive: c.Backups, Demo: c.Demo, Debug: c.Debug,
		Config: config, Out: s.out, Log: s.err,
	})
}

type stopCommand struct {
	dataFlag
	All    bool   `help:"Stop the databases and the gateway too."`
	Config string `help:"Configuration file (YAML)." type:"existingfile"`
}

// stopPatience is how long a server may take to finish its requests.
const stopPatience = 30 * time.Second

func (c *stopCommand) Run(ctx context.Context, s *streams) error {
	served, err := operator.StopServing(ctx, c.Data, stopPatience)
	if err != nil {
		return err
	}
	if served {
		fmt.Fprintln(s.out, "steward has stopped.")
	} else {
		fmt.Fprintln(s.out, "No steward serves this data folder.")
	}
	if !c.All {
		return nil
	}
	config, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	stopped, err := operator.StopAll(ctx, c.Data, config)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%d database server(s) and the gateway have stopped.\n", stopped)
	return nil
}

type versionCommand struct{}

func (versionCommand) Run(s *streams) error {
	fmt.Fprintln(s.out, "steward", app.Version())
	return nil
}
