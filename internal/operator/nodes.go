package operator

import (
	"context"
	"log/slog"
	"os"

	"steward/internal/config"
	"steward/internal/datadir"
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
	driver, err := host.New(ctx, o)
	if err != nil {
		return nil, err
	}
	defer driver.Close()
	return driver.Nodes()
}
