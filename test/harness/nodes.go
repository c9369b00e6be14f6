package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Node is a row of `steward node list --json`.
type Node struct {
	Cluster   int64  `json:"cluster"`
	Ordinal   int    `json:"ordinal"`
	Role      string `json:"role"`
	Pid       int    `json:"pid"`
	Address   string `json:"address"`
	Running   bool   `json:"running"`
	Streaming bool   `json:"streaming"`
	Problem   string `json:"problem"`
	Folder    string `json:"folder"`
	Failovers int    `json:"failovers"`
	// Installation is the build that the data was last run with.
	Installation string `json:"installation"`
}

// Nodes lists the server processes of a database.
func (s *Server) Nodes(d Database) ([]Node, error) {
	out, err := s.Command("node", "list", "--data", s.Data, "--config", s.ConfigPath(), "--cluster", strconv.FormatInt(d.ID, 10), "--json")
	if err != nil {
		return nil, fmt.Errorf("node list: %w: %s", err, out)
	}
	var list []Node
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("node list: %w: %s", err, out)
	}
	return list, nil
}

// Primary is the node that takes a database's writes.
func (s *Server) Primary(d Database) Node {
	s.t.Helper()
	nodes, err := s.Nodes(d)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Role == "primary" {
			return n
		}
	}
	s.t.Fatalf("no primary: %+v", nodes)
	return Node{}
}

// AwaitHealthy waits until all of a database's nodes run, the replicas follow,
// none is one of the processes gone, and the API says active.
func (s *Server) AwaitHealthy(d Database, size int, gone ...int) Database {
	s.t.Helper()
	s.AwaitStatus(d, "active") // spares most looks at the nodes
	s.AwaitNodes(d, size, gone...)
	return s.AwaitStatus(d, "active")
}

// AwaitNodes waits until all of a database's nodes run, the replicas follow, and none
// is one of the processes gone. The API isn't asked.
func (s *Server) AwaitNodes(d Database, size int, gone ...int) {
	s.t.Helper()
	s.Eventually("healthy nodes", func() error { return s.healthyNodes(d, size, gone) })
}

func (s *Server) healthyNodes(d Database, size int, gone []int) error {
	nodes, err := s.Nodes(d)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range nodes {
		if slices.Contains(gone, n.Pid) {
			errs = append(errs, fmt.Errorf("node %d is the old process %d", n.Ordinal, n.Pid))
		}
		if !n.Running || n.Role == "replica" && !n.Streaming {
			errs = append(errs, fmt.Errorf("%+v", n))
		}
	}
	if len(nodes) != size {
		errs = append(errs, fmt.Errorf("%d nodes", len(nodes)))
	}
	return errors.Join(errs...)
}
