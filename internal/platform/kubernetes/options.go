package kubernetes

import (
	"errors"
	"log/slog"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"steward/internal/engine"
	"steward/internal/platform"
)

// Options are what a Driver is made of.
type Options struct {
	// Config says where the API server is, and who we are there.
	Config *rest.Config
	// Namespace is where clusters are. It is one steward's alone: what it doesn't know there is removed, if it bears
	// steward's labels and has no data.
	Namespace string
	// Owner is whose the namespace is: a store's identity, the same for all servers that share it.
	Owner string
	// StorageClass and EncryptedStorageClass are of clusters' volumes: "" for the default, and for none.
	StorageClass, EncryptedStorageClass string
	// ImageCatalog names the object in the namespace with the image of each major version.
	ImageCatalog string
	// MariaDBImages names the ConfigMap in the namespace with the image of each series of MariaDB; "" where none runs.
	MariaDBImages string
	// ObjectStore names the object in the namespace that says where backups are kept; "" for none.
	ObjectStore string
	// ServiceType is how customers get in: LoadBalancer, or ClusterIP for those within the cluster.
	ServiceType corev1.ServiceType
	// Networks are where steward's own connections come from, as servers see it.
	Networks []netip.Prefix
	Secrets  platform.Secrets
	// Engine is PostgreSQL's driver, which must be engine.Told, and MariaDB that of MariaDB, which must be engine.Placed.
	Engine, MariaDB engine.Driver
	// Now is the clock; time.Now when nil.
	Now    func() time.Time
	Logger *slog.Logger
}

func (o *Options) complete() error {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ServiceType == "" {
		o.ServiceType = corev1.ServiceTypeLoadBalancer
	}
	switch {
	case o.ServiceType != corev1.ServiceTypeLoadBalancer && o.ServiceType != corev1.ServiceTypeClusterIP:
		return errors.New("the service type must be LoadBalancer or ClusterIP")
	case o.Namespace == "":
		return errors.New("a namespace is required")
	case o.ImageCatalog == "":
		return errors.New("an image catalog is required")
	case len(o.Networks) == 0:
		return errors.New("the networks that steward connects from are required")
	}
	return nil
}
