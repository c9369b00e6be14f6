package api

import (
	"context"
	"net/http"

	"steward/internal/control"
	"steward/internal/doctor"
	"steward/internal/fault"
	"steward/internal/filter"
)

// Installation is what operators look at of the server and its machine.
type Installation interface {
	// Examine says what the machine and the regions offer, and what is missing.
	Examine(ctx context.Context) (doctor.Report, error)
	// Nodes are the database servers of this machine.
	Nodes() ([]doctor.Node, error)
}

func noConsole() error {
	return fault.NewPrecondition("The server has no console to set a password in: set console.url, or make users with `steward user create` on its machine.")
}

type offeredRegion struct {
	ID       string    `json:"id"`
	Label    string    `json:"label"`
	Platform string    `json:"platform" enum:"host,kubernetes"`
	Away     string    `json:"away" doc:"Why it can't be reached; empty when it can."`
	Planned  tenantUse `json:"planned" doc:"What plans promise to the databases of all accounts there."`
}

var offeredFields = filter.Fields{"id": filter.Text, "label": filter.Text, "platform": filter.Text}

func offeredMember(r control.RegionUse, field string) any {
	return map[string]any{"id": r.ID, "label": r.Label, "platform": r.Platform.Name()}[field]
}

func showRegionUse(r control.RegionUse) offeredRegion {
	return offeredRegion{r.ID, r.Label, r.Platform.Name(), r.Away, showUse(r.Used)}
}

// processView is a database server of the machine.
type processView struct {
	Database     int64   `json:"database"`
	Label        string  `json:"label"`
	Account      string  `json:"account"`
	Engine       string  `json:"engine"`
	Node         int     `json:"node"`
	Role         string  `json:"role" enum:"primary,replica"`
	Server       string  `json:"server" doc:"The build that it runs."`
	Running      bool    `json:"running"`
	PID          int     `json:"pid"`
	Address      string  `json:"address"`
	Joining      bool    `json:"joining" doc:"Whether the replica is on its way to follow the primary."`
	Streaming    bool    `json:"streaming"`
	LagSeconds   float64 `json:"lag_seconds"`
	Position     string  `json:"position"`
	Failovers    int     `json:"failovers"`
	LastFailover *string `json:"last_failover" format:"date-time"`
	Problem      string  `json:"problem"`
}

// namedNode is a database server, and what its database is called.
type namedNode struct {
	doctor.Node
	control.DatabaseName
}

var processFields = filter.Fields{"database": filter.Number, "label": filter.Text, "account": filter.Text, "engine": filter.Text, "role": filter.Text, "running": filter.Bool}

func processMember(n namedNode, field string) any {
	return map[string]any{
		"database": int64(n.Cluster), "label": n.Label, "account": n.Account, "engine": string(n.Engine), "role": string(n.Role), "running": n.Running,
	}[field]
}

func showProcess(n namedNode) processView {
	v := processView{
		Database: int64(n.Cluster), Label: n.Label, Account: n.Account, Engine: string(n.Engine), Node: n.Ordinal, Role: string(n.Role), Server: n.Installation,
		Running: n.Running, PID: n.Pid, Address: n.Address, Joining: n.Joining, Streaming: n.Streaming, LagSeconds: n.LagSeconds, Position: n.Position,
		Failovers: n.Failovers, Problem: n.Problem,
	}
	if !n.LastFailover.IsZero() {
		v.LastFailover = new(showTime(n.LastFailover))
	}
	return v
}

// reportView is what `steward doctor` says.
type reportView struct {
	Engines  []buildView        `json:"engines" nullable:"false"`
	Host     machineFacts       `json:"host"`
	Gateway  gatewayView        `json:"gateway"`
	Missing  []missingView      `json:"missing" nullable:"false"`
	Notes    []string           `json:"notes" nullable:"false"`
	Clusters []kubernetesReport `json:"regions" nullable:"false" doc:"Those that have a platform of their own."`
}

type buildView struct {
	Engine  string `json:"engine"`
	Server  string `json:"server"`
	Version string `json:"version"`
	Builder string `json:"builder"`
	Home    string `json:"home"`
}

type machineFacts struct {
	ControlGroups string   `json:"control_groups"`
	Bubblewrap    bool     `json:"bubblewrap"`
	OwnUsers      bool     `json:"own_users" doc:"Whether each database's servers run as a user of their own."`
	Warnings      []string `json:"warnings" nullable:"false"`
}

type gatewayView struct {
	Driver  string `json:"driver"`
	Why     string `json:"why"`
	Fault   string `json:"fault" doc:"Why nothing can lead connections; empty when something does."`
	Tracked int    `json:"tracked" doc:"Connections that the kernel tracks, of all programs."`
	Most    int    `json:"most"`
}

type missingView struct {
	What     string `json:"what"`
	Why      string `json:"why"`
	Install  string `json:"install" doc:"The command that helps."`
	Required bool   `json:"required"`
}

type kubernetesReport struct {
	ID        string        `json:"id"`
	Reachable bool          `json:"reachable"`
	Fault     string        `json:"fault"`
	Version   string        `json:"version"`
	Operator  string        `json:"operator"`
	Missing   []regionFinds `json:"missing" nullable:"false"`
	Notes     []regionFinds `json:"notes" nullable:"false"`
}

type regionFinds struct {
	What    string `json:"what"`
	Command string `json:"command" doc:"What mends it, or shows more."`
}

func showFindings(all []doctor.Finding) []regionFinds {
	views := make([]regionFinds, len(all))
	for i, f := range all {
		views[i] = regionFinds(f)
	}
	return views
}

func showReport(r doctor.Report) reportView {
	v := reportView{
		Engines: []buildView{}, Missing: []missingView{}, Notes: append([]string{}, r.Notes...), Clusters: []kubernetesReport{},
		Host:    machineFacts{r.Isolation.ControlGroups, r.Isolation.Bubblewrap, r.Isolation.OwnUsers, append([]string{}, r.Isolation.Warnings...)},
		Gateway: gatewayView{r.Gateway.Driver, r.Gateway.Why, r.Gateway.Fault, r.Gateway.Tracked, r.Gateway.Most},
	}
	for _, e := range r.Engines {
		v.Engines = append(v.Engines, buildView{string(e.Family()) + "/" + e.Series, string(e.Flavour), e.Version, e.Builder, e.Home})
	}
	for _, m := range r.Missing {
		v.Missing = append(v.Missing, missingView(m))
	}
	for _, k := range r.Regions {
		v.Clusters = append(v.Clusters, kubernetesReport{k.ID, k.Reachable, k.Fault, k.Version, k.Operator, showFindings(k.Missing), showFindings(k.Notes)})
	}
	return v
}

// registerInstallation adds what operators see of the server, its machine and its regions.
func (a *API) registerInstallation() {
	registerForOperators(a, endpoint{method: http.MethodGet, path: "/regions", id: "listRegionsUsed", summary: "List the regions, whether they can be reached and what is planned there"},
		func(ctx context.Context, c call[Listing, none]) (list[offeredRegion], error) {
			found, err := a.Control.Operators.Regions(ctx)
			if err != nil {
				return list[offeredRegion]{}, err
			}
			return listInMemory(inMemory[control.RegionUse]{found, offeredFields, offeredMember}, c.In, showRegionUse)
		})
	registerForOperators(a, endpoint{method: http.MethodGet, path: "/nodes", id: "listServerProcesses", summary: "List the database servers of the server's machine"},
		func(ctx context.Context, c call[Listing, none]) (list[processView], error) {
			found, err := a.Installation.Nodes()
			if err != nil {
				return list[processView]{}, err
			}
			names, err := a.Control.Operators.Names(ctx)
			if err != nil {
				return list[processView]{}, err
			}
			all := make([]namedNode, len(found))
			for i, n := range found {
				all[i] = namedNode{n, names[n.Cluster]}
			}
			return listInMemory(inMemory[namedNode]{all, processFields, processMember}, c.In, showProcess)
		})
	registerForOperators(a, endpoint{method: http.MethodGet, path: "/doctor", id: "examineInstallation", summary: "Say what the server's machine and the regions offer, what is missing and how to get it"},
		func(ctx context.Context, _ call[none, none]) (reportView, error) {
			r, err := a.Installation.Examine(ctx)
			if err != nil {
				return reportView{}, err
			}
			return showReport(r), nil
		})
}
