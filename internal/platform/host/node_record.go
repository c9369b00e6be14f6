package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/parameter"
	"steward/internal/process"
)

// record is what was done for a node, kept in its folder. No secret is in it.
type record struct {
	Cluster cluster.ID     `json:"cluster"`
	Ordinal int            `json:"ordinal"`
	Engine  cluster.Engine `json:"engine"`
	Port    int            `json:"port"`
	// Installation is the build that the data belongs to.
	Installation string `json:"installation"`
	// Bootstrapped reports whether the server has the cluster's own passwords; from
	// then on the data is the customer's.
	Bootstrapped bool `json:"bootstrapped"`
	// Upgrading reports whether the data was given to a newer build whose work on it
	// isn't known to be finished.
	Upgrading bool `json:"upgrading,omitempty"`
	// RestartDue reports whether the running server has read settings which it takes
	// over at its next start only.
	RestartDue bool `json:"restart_due,omitempty"`
	// ReadOnly is the disk guard.
	ReadOnly bool `json:"read_only,omitempty"`
	// Encrypted data needs its keys in memory before the server starts.
	Encrypted bool `json:"encrypted,omitempty"`
	// Boot is the boot in which the data was cloned.
	Boot string `json:"boot"`
	// Launch is how the server was last started, and is started after a crash.
	Launch *launch `json:"launch,omitempty"`
	// Loaded is a digest of the files that the running server has read.
	Loaded string `json:"loaded,omitempty"`
	// Fenced is which of our fences the data has, as far as is known: files that were
	// loaded say nothing of them.
	Fenced int `json:"fenced,omitempty"`
	// Applied is what was last brought about in full; nil before the first time.
	Applied *settings `json:"applied,omitempty"`
}

// fenceVersion is raised when an engine's Fence takes more from customers than it did: then
// it is called once for all data that is there.
const fenceVersion = 1

// settings are the parts of a cluster that may ask for a restart when they change.
type settings struct {
	Plan          catalog.Plan   `json:"plan"`
	SSLConnection bool           `json:"ssl_connection"`
	Commit        cluster.Commit `json:"commit"`
	// Replication is how others follow; "" when the node is alone.
	Replication cluster.Replication `json:"replication,omitempty"`
	// Config are the settings that the customer chose, as text, since these are compared.
	Config string `json:"config,omitempty"`
}

// launch is a server's start, repeatable without knowing anything else.
type launch struct {
	Installation string              `json:"installation"`
	Argv         []string            `json:"argv"`
	Env          []string            `json:"env"`
	WorkDir      string              `json:"work_dir"`
	User         int                 `json:"user"`
	Sandboxed    bool                `json:"walled"`
	Limits       process.GroupLimits `json:"limits"`
	Rlimits      process.Rlimits     `json:"rlimits"`
	// Config are the customer's settings at the start.
	Config parameter.Config `json:"config,omitempty"`
}

func recordFile(nodeDir string) string { return filepath.Join(nodeDir, "node.json") }

// readRecord is nil when there is none. Until the server is bootstrapped the
// clone's own note stands in for a record that a crash of the machine tore.
func readRecord(nodeDir string) (*record, error) {
	content, err := os.ReadFile(recordFile(nodeDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		if exists(noteFile(nodeDir)) {
			return nil, nil
		}
		return nil, fmt.Errorf("read record %s: %w", recordFile(nodeDir), err)
	}
	return &r, nil
}

// write replaces the record. When durably, it is on the disk when write
// returns: from Bootstrapped on, losing it would mean not knowing whose data that is.
func (r *record) write(nodeDir string, durably bool) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	content = append(content, '\n')
	if durably {
		err = writeDurably(recordFile(nodeDir), content)
	} else {
		err = process.WriteFile(recordFile(nodeDir), content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

// writeDurably replaces a file in a folder of steward's own.
func writeDurably(path string, content []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
