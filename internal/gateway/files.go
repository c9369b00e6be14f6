package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"steward/internal/process"
)

// routeDir holds one file per route: what the gateway is made of after a reboot.
const routeDir = "routes"

// Files keeps routes in a folder, a file each.
type Files struct {
	Dir    string
	Logger *slog.Logger
}

// RouteFiles are those in a gateway's folder.
func RouteFiles(dir string, log *slog.Logger) Files {
	return Files{Dir: filepath.Join(dir, routeDir), Logger: log}
}

func (g *Gateway) files() Files { return RouteFiles(g.o.Dir, g.log) }

func (f Files) path(port int) string { return filepath.Join(f.Dir, strconv.Itoa(port)+".json") }

// Save puts a route on the disk.
func (f Files) Save(r Route) error {
	content, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("save route of port %d: %w", r.Port, err)
	}
	if err := process.WriteFile(f.path(r.Port), append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("save route of port %d: %w", r.Port, err)
	}
	return nil
}

// Forget removes a port's route; nil when there is none.
func (f Files) Forget(port int) error {
	if err := os.Remove(f.path(port)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget route of port %d: %w", port, err)
	}
	return nil
}

// Load reads all routes, by port. A file that a crash of the machine tore counts as
// absent: its port stays blocked until the route is set again.
func (f Files) Load() (map[int]Route, error) {
	files, err := filepath.Glob(filepath.Join(f.Dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("load routes: %w", err)
	}
	routes := map[int]Route{}
	for _, path := range files {
		r, err := loadRoute(path)
		if err != nil {
			f.Logger.Warn("route is left out until it is set again", "file", path, "error", err)
			continue
		}
		routes[r.Port] = r
	}
	return routes, nil
}

func loadRoute(path string) (Route, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Route{}, err
	}
	var r Route
	if err := json.Unmarshal(content, &r); err != nil {
		return Route{}, err
	}
	if strconv.Itoa(r.Port) != strings.TrimSuffix(filepath.Base(path), ".json") {
		return Route{}, fmt.Errorf("names port %d", r.Port)
	}
	return r, r.Validate()
}
