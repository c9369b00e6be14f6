package datadir

import (
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/platform/kubernetes"
)

// Requests to an API server: so many a second, and for a moment more. It has many clients, and adopting a thousand databases
// takes some.
const (
	requestRate  = 400
	requestBurst = 800
)

// KubernetesOptions are those of a region's platform, but for the secrets. The kubeconfig is read anew each time.
func KubernetesOptions(p catalog.Platform, log *slog.Logger) (kubernetes.Options, error) {
	config, err := kubernetesConfig(p.Kubeconfig)
	if err != nil {
		return kubernetes.Options{}, err
	}
	engines := Engines(log)
	config.QPS, config.Burst, config.UserAgent = requestRate, requestBurst, "steward"
	return kubernetes.Options{
		Config: config, Namespace: p.Namespace, StorageClass: p.StorageClass, EncryptedStorageClass: p.EncryptedStorageClass,
		ImageCatalog: p.Images, MariaDBImages: p.MariaDBImages, ObjectStore: p.ObjectStore, ServiceType: corev1.ServiceType(p.ServiceType), Networks: p.From,
		Engine: engines[cluster.PostgreSQL], MariaDB: engines[cluster.MySQL], Now: failpoint.Now, Logger: log,
	}, nil
}

func kubernetesConfig(file string) (*rest.Config, error) {
	if file == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("platform.kubeconfig is empty, and steward doesn't run in a cluster of Kubernetes itself: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, fmt.Errorf("platform.kubeconfig %s: %w", file, err)
	}
	return config, nil
}
