package operator

import (
	"context"
	"log/slog"
	"os"
	"os/exec"

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
	driver, err := host.New(ctx, o)
	if err != nil {
		return nil, err
	}
	defer driver.Close()
	return driver.Nodes()
}

// Report is what `steward doctor` found.
type Report struct {
	Engines   []engine.Installation `json:"engines"`
	Isolation host.Facts            `json:"isolation"`
	// Missing are programs that steward needs, with the command that installs them.
	Missing []Missing `json:"missing"`
	Notes   []string  `json:"notes"`
}

// Missing is something that isn't there.
type Missing struct {
	What     string `json:"what"`
	Why      string `json:"why"`
	Install  string `json:"install"`
	Required bool   `json:"required"`
}

// Examine looks at what this machine offers, without changing anything that runs.
func Examine(ctx context.Context, c config.Config) (Report, error) {
	dir, err := os.MkdirTemp("", "steward-doctor-")
	if err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil {
		return Report{}, err
	}
	p, err := datadir.Open(dir)
	if err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(p.Run)
	defer os.RemoveAll(p.Keys)
	o, err := p.HostOptions(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return Report{}, err
	}
	driver, err := host.New(ctx, o)
	if err != nil {
		return Report{}, err
	}
	defer driver.Close()
	r := Report{Engines: driver.Installations(), Isolation: driver.Facts(), Missing: missing(driver.Installations())}
	for _, note := range driver.Notes() {
		r.Notes = append(r.Notes, note.Error())
	}
	return r, nil
}

func missing(found []engine.Installation) []Missing {
	var gone []Missing
	have := map[engine.Flavour]bool{}
	for _, inst := range found {
		have[inst.Flavour] = true
	}
	if !have[engine.FlavourPostgreSQL] {
		gone = append(gone, Missing{"PostgreSQL", "the store, and PostgreSQL databases", "apt-get install postgresql-15", true})
	}
	if !have[engine.FlavourMariaDB] && !have[engine.FlavourMySQL] {
		gone = append(gone, Missing{"MariaDB", "MySQL databases", "apt-get install mariadb-server", false})
	}
	if !program("haproxy") {
		gone = append(gone, Missing{"HAProxy", "the gateway", "apt-get install haproxy", true})
	}
	if !program("bwrap") {
		gone = append(gone, Missing{"bubblewrap", "servers that see only their own files", "apt-get install bubblewrap", false})
	}
	return gone
}

func program(name string) bool {
	if _, err := exec.LookPath(name); err == nil {
		return true
	}
	_, err := os.Stat("/usr/sbin/" + name)
	return err == nil
}
