package cnpg

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is what the types belong to.
var GroupVersion = schema.GroupVersion{Group: "postgresql.cnpg.io", Version: "v1"}

// AddToScheme makes the types known.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Cluster{}, &ClusterList{}, &ImageCatalog{}, &ImageCatalogList{}, &Backup{}, &BackupList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	s.AddKnownTypes(BarmanGroupVersion, &ObjectStore{}, &ObjectStoreList{})
	metav1.AddToGroupVersion(s, BarmanGroupVersion)
	return nil
}

// DeepCopyObject implements runtime.Object.
func (c *Cluster) DeepCopyObject() runtime.Object { return copied(c, new(Cluster)) }

// DeepCopyObject implements runtime.Object.
func (c *ClusterList) DeepCopyObject() runtime.Object { return copied(c, new(ClusterList)) }

// DeepCopyObject implements runtime.Object.
func (c *ImageCatalog) DeepCopyObject() runtime.Object { return copied(c, new(ImageCatalog)) }

// DeepCopyObject implements runtime.Object.
func (c *ImageCatalogList) DeepCopyObject() runtime.Object { return copied(c, new(ImageCatalogList)) }

// copied goes by way of JSON, in which all of the types is: what is read a thousand times a minute isn't copied.
func copied[T any](from, to *T) *T {
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		panic(fmt.Sprintf("copy %T: %v", from, err)) // it came as JSON
	}
	return to
}
