package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"steward/internal/process"
)

// routeDir holds one file per route: what HAProxy is started with.
const routeDir = "routes"

func (g *Gateway) routeFile(port int) string {
	return filepath.Join(g.o.Dir, routeDir, strconv.Itoa(port)+".json")
}

func (g *Gateway) saveRoute(r Route) error {
	content, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("save route of port %d: %w", r.Port, err)
	}
	if err := process.WriteFile(g.routeFile(r.Port), append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("save route of port %d: %w", r.Port, err)
	}
	return nil
}

func (g *Gateway) forgetRoute(port int) error {
	if err := os.Remove(g.routeFile(port)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget route of port %d: %w", port, err)
	}
	return nil
}

// loadRoutes reads all routes. A file that a crash of the machine tore counts as
// absent: its port stays blocked until the route is set again.
func (g *Gateway) loadRoutes() (map[int]Route, error) {
	files, err := filepath.Glob(filepath.Join(g.o.Dir, routeDir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("load routes: %w", err)
	}
	routes := map[int]Route{}
	for _, path := range files {
		r, err := loadRoute(path)
		if err != nil {
			g.log.Warn("route is left out until it is set again", "file", path, "error", err)
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
	return r, r.validate()
}
