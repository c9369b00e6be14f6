package operator

import (
	"context"
	"log/slog"
	"os"

	"steward/internal/config"
	"steward/internal/datadir"
	"steward/internal/engine"
	"steward/internal/platform/host"
)

// Nodes are the server processes of a data folder, whether it is served or not.
func Nodes(ctx context.Context, data string, c config.Config) ([]host.NodeInfo, error) {
	if _, err := os.Stat(data); err != nil {
		return nil, err
	}
	p, err := datadir.Open(data)
	if err != nil {
		return nil, err
	}
	o, err := p.HostOptions(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	// Who only looks at what there is needs neither builds nor a sandbox, whose programs would be run to find them.
	o.Installations, o.Isolation = []engine.Installation{}, host.Isolation{Bubblewrap: "off", Cgroups: "off"}
	driver, err := host.New(ctx, o)
	if err != nil {
		return nil, err
	}
	defer driver.Close()
	return driver.Nodes()
}
