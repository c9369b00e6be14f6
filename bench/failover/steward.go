package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"steward/test/harness"
)

// mode is how a cluster replicates, in the words of steward's API.
type mode struct {
	engine      string // engine/version
	size        int
	replication string
	commit      string // PostgreSQL
}

func (m mode) family() string {
	if filepath.Dir(m.engine) == mySQL {
		return mySQL
	}
	return postgreSQL
}

func (m mode) String() string {
	if m.commit == "" {
		return m.replication
	}
	return m.replication + " " + m.commit
}

// steward is a cluster behind steward's API.
type steward struct {
	test     *harness.Outside
	server   *harness.Server
	database harness.Database
	endpoint Endpoint
	size     int
}

// startSteward starts a cluster that can be resized so many times.
func startSteward(m mode, resizes int) (Target, error) {
	s := &steward{test: &harness.Outside{}, size: m.size}
	err := harness.Attempt(func() {
		file := filepath.Join(s.test.TempDir(), "catalog.yaml")
		if err := os.WriteFile(file, []byte(catalog(resizes+1)), 0o600); err != nil {
			s.test.Fatal(err)
		}
		s.server = harness.New(s.test, harness.WithConfig("catalog:\n  file: "+file))
		spec := harness.Small("failover", m.engine)
		spec["type"] = fmt.Sprintf(planName, 0)
		spec["cluster_size"] = m.size
		spec["replication_type"] = m.replication
		if m.commit != "" {
			spec["replication_commit_type"] = m.commit
		}
		s.database = s.server.CreateActive(spec)
		c := s.server.Credentials(s.database)
		s.endpoint = Endpoint{
			Engine: s.database.Engine, Host: s.database.Hosts.Primary, ServerName: s.database.Hosts.Primary, Port: s.database.Port,
			User: c.Username, Password: c.Password, Database: "defaultdb", CA: c.CA,
		}
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start steward: %w", err), s.Close())
	}
	return s, nil
}

// planName is that of the plan after so many resizes.
const planName = "bench-%d"

// catalog has plans of which each has more disk than the one before, as a resize
// demands, and another amount of memory, so that servers restart for it.
func catalog(plans int) string {
	var text strings.Builder
	text.WriteString("types:\n")
	for i := range plans {
		fmt.Fprintf(&text, "  - {id: %[1]s, label: %[1]s, class: standard, memory: %[2]d, disk: %[3]d, vcpus: 1}\n",
			fmt.Sprintf(planName, i), 1024+256*(i%2), (25+i)<<10)
	}
	return text.String()
}

func (*steward) Name() string { return "steward" }

func (s *steward) Endpoint() Endpoint { return s.endpoint }

func (s *steward) Close() error { return s.test.Close() }

// Restart has nothing to do: steward is to do it.
func (*steward) Restart(context.Context, Node) error { return nil }

// listed is one line of `steward node list --json`.
type listed struct {
	Ordinal int    `json:"ordinal"`
	Role    string `json:"role"`
	PID     int    `json:"pid"`
	Running bool   `json:"running"`
	Address string `json:"address"`
	Folder  string `json:"folder"`
}

func (s *steward) nodes() ([]listed, error) {
	out, err := s.server.Command("node", "list", "--data", s.server.Data, "--config", s.server.ConfigPath(), "--cluster", fmt.Sprint(s.database.ID), "--json")
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w: %s", err, out)
	}
	var nodes []listed
	if err := json.Unmarshal([]byte(out), &nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w: %s", err, out)
	}
	return nodes, nil
}

func (s *steward) Primary(context.Context) (Node, error) {
	nodes, err := s.nodes()
	if err != nil {
		return Node{}, err
	}
	for _, n := range nodes {
		if n.Role == "primary" && n.PID != 0 {
			return Node{Name: fmt.Sprint(n.Ordinal), Address: n.Address, Server: n.PID, DataDir: filepath.Join(n.Folder, "data")}, nil
		}
	}
	return Node{}, errors.New("no node is primary and runs")
}

// Healthy asks the API, and looks itself: right after a fault the API can't know.
func (s *steward) Healthy(ctx context.Context) error {
	nodes, err := s.nodes()
	if err != nil {
		return err
	}
	primaries := 0
	for _, n := range nodes {
		if !n.Running || !serving(n.PID) {
			return fmt.Errorf("node %d doesn't run", n.Ordinal)
		}
		if n.Role == "primary" {
			primaries++
		}
	}
	if len(nodes) != s.size || primaries != 1 {
		return fmt.Errorf("%d nodes, %d of them primary", len(nodes), primaries)
	}
	status, body, err := s.server.TryCall(http.MethodGet, s.database.Path(), nil, &s.database)
	if err != nil {
		return err
	}
	if status != http.StatusOK || s.database.Status != "active" {
		return fmt.Errorf("the API says %d %s", status, body)
	}
	return ctx.Err()
}

// Switchover is what a resize does to a cluster: its nodes restart one after the
// other, the primary's part being taken by another first. A patch has nothing to do
// while no newer build is installed.
func (s *steward) Switchover(context.Context) error {
	var size int
	if _, err := fmt.Sscanf(s.database.Type, planName, &size); err != nil {
		return fmt.Errorf("plan %s: %w", s.database.Type, err)
	}
	plan := fmt.Sprintf(planName, size+1)
	status, body, err := s.server.TryCall(http.MethodPut, s.database.Path(), map[string]any{"type": plan}, nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("resize to %s: %d %s", plan, status, body)
	}
	return nil
}
