package catalog

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"steward/internal/cluster"
)

// Kinds of platforms, as operators name them.
const (
	Host       = "host"
	Kubernetes = "kubernetes"
)

// Platform is where a region's databases run.
type Platform struct {
	// Kind is Host, or empty, or Kubernetes, which alone has the rest.
	Kind string `yaml:"kind"`
	// Kubeconfig is the file that says how to log in to the API server; empty for steward's own account, where it runs
	// in that cluster itself.
	Kubeconfig string `yaml:"kubeconfig"`
	// Namespace is where the databases are; it is this steward's alone.
	Namespace string `yaml:"namespace"`
	// StorageClass and EncryptedStorageClass are of databases' volumes: empty for the default, and for none.
	StorageClass          string `yaml:"storage_class"`
	EncryptedStorageClass string `yaml:"encrypted_storage_class"`
	// ServiceType is LoadBalancer, which it is when empty, or ClusterIP for customers within that cluster.
	ServiceType string `yaml:"service_type"`
	// Images names the ImageCatalog in the namespace.
	Images string `yaml:"images"`
	// MariaDBImages names the ConfigMap in the namespace with the image of each series of MariaDB; empty where there is none.
	MariaDBImages string `yaml:"mariadb_images"`
	// ObjectStore names the ObjectStore in the namespace where backups are kept; empty for none: then there are no backups.
	ObjectStore string `yaml:"object_store"`
	// From are the networks that steward's own connections come from, as the databases see it.
	From []netip.Prefix `yaml:"from"`
}

// OnHost reports whether databases run on this host.
func (p Platform) OnHost() bool { return p.Kind == "" || p.Kind == Host }

// Name tells platforms apart: databases that were made on one are on no other.
func (p Platform) Name() string {
	if p.OnHost() {
		return Host
	}
	return p.Kind + "/" + p.Namespace
}

// Abilities are what a region can do now.
type Abilities struct {
	Engines []Engine
	// Backups reports whether databases are backed up, restored and forked.
	Backups bool
	// KeepsBackups reports whether backups are kept where the databases are, and not in steward's archive: then they can be forked there only. Moments
	// reports whether what is written between such backups is kept as well, so that any moment since can be had; For says so.
	KeepsBackups, Moments bool
	// Logs reports whether their servers' logs can be read.
	Logs bool
	// Restarts and Switchovers report whether owners can ask for them.
	Restarts, Switchovers bool
	// Upgrades reports whether databases can be moved to a newer series.
	Upgrades bool
	// Sleep reports whether databases that nobody uses can sleep.
	Sleep bool
	// Pools reports whether databases of PostgreSQL can have connection pools.
	Pools bool
	// Imports reports whether databases can be brought over from other servers.
	Imports bool
	// Away is why nothing can be changed there now, for customers; "" while all can.
	Away string
}

// Elsewhere says what regions can do whose platform isn't this host.
type Elsewhere interface {
	Abilities(region string) Abilities
}

// Abilities are what a region can do. Whether databases on this host can sleep depends on its gateway, too, and whether
// they can have pools on the pooler.
func (c *Catalog) Abilities(region string) Abilities {
	if r, ok := c.Region(region); ok && !r.Platform.OnHost() && c.Elsewhere != nil {
		return c.Elsewhere.Abilities(region)
	}
	return Abilities{Engines: c.Engines, Backups: true, Logs: true, Restarts: true, Switchovers: true, Upgrades: true, Sleep: true, Pools: true, Imports: true}
}

// For are what a region can do with databases of one engine.
func (c *Catalog) For(region string, engine cluster.Engine) Abilities {
	can := c.Abilities(region)
	can.Moments = can.KeepsBackups
	for _, e := range can.Engines {
		if e.Engine == engine {
			can.Moments = can.Moments && !e.Lacks.Backups && !e.Lacks.Moments
			can.Backups, can.KeepsBackups = can.Backups && !e.Lacks.Backups, can.KeepsBackups && !e.Lacks.Backups
			can.Logs = can.Logs && !e.Lacks.Logs
		}
	}
	return can
}

// Engine finds one of a region's engines.
func (a Abilities) Engine(engine cluster.Engine, series string) (Engine, bool) {
	return find(a.Engines, func(e Engine) bool { return e.Engine == engine && e.Series == series })
}

// Names are the ids of a region's engines, for people.
func (a Abilities) Names() string {
	names := make([]string, len(a.Engines))
	for i, e := range a.Engines {
		names[i] = e.ID()
	}
	return strings.Join(names, ", ")
}

// validate finds what is wrong with a platform, one error for each member.
func (p Platform) validate() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("platform."+format, args...)) }
	switch {
	case p.OnHost():
		if p.more() {
			bad("kind: must be %s to have anything beside it", Kubernetes)
		}
		return errs
	case p.Kind != Kubernetes:
		bad("kind: %q must be %s or %s", p.Kind, Host, Kubernetes)
		return errs
	}
	if p.Namespace == "" {
		bad("namespace: is required; it must be this steward's alone")
	}
	if p.Images == "" {
		bad("images: is required: the name of the ImageCatalog in the namespace")
	}
	if !slices.Contains([]string{"", "LoadBalancer", "ClusterIP"}, p.ServiceType) {
		bad("service_type: %q must be LoadBalancer or ClusterIP", p.ServiceType)
	}
	if len(p.From) == 0 {
		bad("from: is required: the networks that steward connects from, as databases see it, such as 10.244.0.0/16")
	}
	for _, f := range p.From {
		if f != f.Masked() {
			bad("from: %s is no network such as 10.244.0.0/16", f)
		}
	}
	return errs
}

// more reports whether a platform says anything beside its kind.
func (p Platform) more() bool {
	return p.Kubeconfig+p.Namespace+p.StorageClass+p.EncryptedStorageClass+p.ServiceType+p.Images+p.MariaDBImages+p.ObjectStore != "" || len(p.From) > 0
}

// validatePlatforms adds to what is wrong with each that two regions have the same.
func validatePlatforms(regions []Region) []error {
	var errs []error
	of := map[[2]string]string{}
	for i, r := range regions {
		for _, err := range r.Platform.validate() {
			errs = append(errs, fmt.Errorf("regions[%d] (%s): %w", i, r.ID, err))
		}
		if r.Platform.OnHost() || r.Platform.Namespace == "" {
			continue
		}
		where := [2]string{r.Platform.Kubeconfig, r.Platform.Namespace}
		if other, taken := of[where]; taken {
			errs = append(errs, fmt.Errorf("regions[%d] (%s): %w", i, r.ID, errors.New("platform.namespace: it is the region "+other+"'s already")))
		}
		of[where] = r.ID
	}
	return errs
}
