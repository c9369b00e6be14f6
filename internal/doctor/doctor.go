// Package doctor says what a machine and the regions of a catalog offer, what is missing
// there and how to get it: for `steward doctor`, and for operators by the API.
package doctor

import (
	"context"
	"log/slog"
	"os"
	"os/exec"

	"steward/internal/config"
	"steward/internal/datadir"
	"steward/internal/engine"
	"steward/internal/gateway/kernel"
	"steward/internal/platform/host"
	"steward/internal/platform/kubernetes"
)

// Node is a database server of the machine.
type Node = host.NodeInfo

// Report is what `steward doctor` found.
type Report struct {
	Engines   []engine.Installation `json:"engines"`
	Isolation host.Facts            `json:"isolation"`
	// Gateway is what would lead connections, and why that.
	Gateway Gateway `json:"gateway"`
	// Missing are programs that steward needs, with the command that installs them.
	Missing []Missing `json:"missing"`
	Notes   []string  `json:"notes"`
	// Regions are those that have a platform of their own.
	Regions []Region `json:"regions,omitempty"`
}

// Gateway is what leads connections, and why that. Fault is why nothing can.
type Gateway struct {
	Driver string `json:"driver,omitempty"`
	Why    string `json:"why,omitempty"`
	Fault  string `json:"fault,omitempty"`
	// Tracked and Most are the connections that the kernel tracks, of all programs, and can.
	Tracked int `json:"tracked,omitempty"`
	Most    int `json:"most,omitempty"`
}

func examineGateway(p datadir.Dir, c config.Config) (g Gateway) {
	driver, why, err := p.GatewayDriver(c)
	if err != nil {
		return Gateway{Fault: err.Error()}
	}
	g = Gateway{Driver: driver, Why: why}
	if driver == config.GatewayKernel {
		if now, most, err := kernel.Tracked(); err == nil {
			g.Tracked, g.Most = now, most
		}
	}
	return g
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
	kubernetes.LogTo(slog.New(slog.DiscardHandler))
	return ExamineWith(ctx, driver, p, c)
}

// ExamineWith is Examine by a driver that was opened before, in the data folder p.
func ExamineWith(ctx context.Context, driver *host.Driver, p datadir.Dir, c config.Config) (Report, error) {
	r := Report{Engines: driver.Installations(), Isolation: driver.Facts(), Gateway: examineGateway(p, c)}
	r.Missing = missing(driver.Installations(), r.Gateway)
	if _, none := driver.Pools(); none != nil {
		r.Missing = append(r.Missing, Missing{"PgBouncer", "connection pools of PostgreSQL databases", "apt-get install pgbouncer", false})
	}
	for _, note := range driver.Notes() {
		r.Notes = append(r.Notes, note.Error())
	}
	var err error
	r.Regions, err = examineRegions(ctx, c)
	return r, err
}

func missing(found []engine.Installation, g Gateway) []Missing {
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
	if !program("haproxy") && g.Driver != config.GatewayKernel {
		gone = append(gone, Missing{"HAProxy", "the gateway", "apt-get install haproxy", g.Driver == config.GatewayHAProxy})
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
