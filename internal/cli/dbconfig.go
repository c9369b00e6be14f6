package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"steward/client"
)

type dbConfigCommands struct {
	List dbConfigListCommand `cmd:"" help:"List the server's settings that can be chosen, of an engine or of a database's."`
	Get  dbConfigGetCommand  `cmd:"" help:"Show the settings that were chosen for a database."`
	Set  dbConfigSetCommand  `cmd:"" help:"Choose settings. What needs a restart gets it at once: on three nodes by a switchover."`
}

type dbConfigListCommand struct {
	apiFlags
	jsonFlag
	Of string `arg:"" name:"engine" help:"mysql, postgresql, or a database's id or label."`
}

func (f *dbConfigListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	engine, _, _ := strings.Cut(f.Of, "/")
	if engine != "mysql" && engine != "postgresql" {
		d, err := c.Find(ctx, f.Of)
		if err != nil {
			return err
		}
		engine = d.Engine
	}
	all, err := c.Parameters(ctx, engine)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, all)
	}
	rows := make([][]string, len(all))
	for i, p := range all {
		restart := ""
		if p.RequiresRestart {
			restart = "restart"
		}
		rows[i] = []string{p.Name, p.Type, valuesOf(p), restart, p.Description}
	}
	return printTable(s.out, []string{"name", "type", "values", "needs", "description"}, rows)
}

// valuesOf says in short what a parameter takes.
func valuesOf(p client.Parameter) string {
	const most = 4
	switch {
	case p.Minimum != nil && p.Maximum != nil:
		return strconv.FormatFloat(*p.Minimum, 'f', -1, 64) + " to " + strconv.FormatFloat(*p.Maximum, 'f', -1, 64)
	case len(p.Enum) > most:
		return fmt.Sprintf("%s, … (%d)", strings.Join(p.Enum[:most], ", "), len(p.Enum))
	case len(p.Enum) > 0:
		return strings.Join(p.Enum, ", ")
	case p.Type == "boolean":
		return "true, false"
	}
	return fmt.Sprintf("such as %v", p.Example)
}

type dbConfigGetCommand struct {
	apiFlags
	jsonFlag
	databaseArg
}

func (f *dbConfigGetCommand) Run(_ context.Context, s *streams, _ *client.Client, d client.Database) error {
	return printConfig(s.out, d, f.JSON)
}

func printConfig(w io.Writer, d client.Database, asJSON bool) error {
	if asJSON {
		return printJSON(w, d.EngineConfig)
	}
	if len(d.EngineConfig) == 0 {
		fmt.Fprintf(w, "Nothing was chosen for %s: all settings follow from the type.\n", d.Label)
		return nil
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(d.EngineConfig)) {
		rows = append(rows, []string{name, fmt.Sprint(d.EngineConfig[name])})
	}
	return printTable(w, []string{"name", "value"}, rows)
}

type dbConfigSetCommand struct {
	apiFlags
	jsonFlag
	waitFlag
	databaseArg
	Values []string `arg:"" optional:"" name:"name=value" help:"Values, such as pg.jit=true or work_mem=8; null takes one away."`
	Unset  []string `help:"Names whose values are taken away."`
}

func (f *dbConfigSetCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	config, err := parseConfig(f.Values)
	if err != nil {
		return err
	}
	for _, name := range f.Unset {
		config[name] = nil
	}
	if len(config) == 0 {
		return errors.New("say what to set: name=value, or --unset name")
	}
	d, err := c.Find(ctx, f.Database)
	if err != nil {
		return err
	}
	d, err = c.UpdateDatabase(ctx, d, client.UpdateDatabase{EngineConfig: config})
	if err != nil {
		return err
	}
	d, err = f.settle(ctx, c, d, s)
	if err != nil {
		return err
	}
	return printConfig(s.out, d, f.JSON)
}

// parseConfig reads name=value. What is a number, true, false or null in JSON is that,
// everything else a text.
func parseConfig(values []string) (client.EngineConfig, error) {
	config := client.EngineConfig{}
	for _, v := range values {
		name, text, found := strings.Cut(v, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("%q isn't name=value", v)
		}
		config[name] = text
		var value any
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if decoder.Decode(&value) != nil || decoder.More() {
			continue
		}
		switch value.(type) {
		case nil, bool, json.Number:
			config[name] = value
		}
	}
	return config, nil
}
