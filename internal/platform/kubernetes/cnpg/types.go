// Package cnpg has of CloudNativePG's objects exactly the fields that steward writes and reads. What they
// mean is in that operator's own documentation, for version 1.30.
package cnpg

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster is a PostgreSQL cluster. steward writes Spec and reads Status.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   ClusterSpec   `json:"spec"`
	Status ClusterStatus `json:"status,omitzero"`
}

// ClusterSpec is what is asked for. Times are in seconds.
type ClusterSpec struct {
	Instances             int                         `json:"instances"`
	ImageName             string                      `json:"imageName,omitempty"`
	PrimaryUpdateStrategy string                      `json:"primaryUpdateStrategy,omitempty"`
	PrimaryUpdateMethod   string                      `json:"primaryUpdateMethod,omitempty"`
	InheritedMetadata     *Metadata                   `json:"inheritedMetadata,omitempty"`
	Bootstrap             *Bootstrap                  `json:"bootstrap,omitempty"`
	Certificates          *Certificates               `json:"certificates,omitempty"`
	PostgreSQL            PostgreSQL                  `json:"postgresql,omitzero"`
	Storage               Storage                     `json:"storage,omitzero"`
	Resources             corev1.ResourceRequirements `json:"resources,omitzero"`
	EnableSuperuserAccess *bool                       `json:"enableSuperuserAccess,omitempty"`
	EnablePDB             *bool                       `json:"enablePDB,omitempty"`
	StartDelay            int                         `json:"startDelay,omitempty"`
	StopDelay             int                         `json:"stopDelay,omitempty"`
	SmartShutdownTimeout  *int                        `json:"smartShutdownTimeout,omitempty"`
	SwitchoverDelay       int                         `json:"switchoverDelay,omitempty"`
	Plugins               []Plugin                    `json:"plugins,omitempty"`
	ExternalClusters      []ExternalCluster           `json:"externalClusters,omitempty"`
}

// Metadata is what the operator gives to all that it makes for the cluster.
type Metadata struct {
	Labels map[string]string `json:"labels,omitempty"`
}

// Bootstrap is how the first instance comes to its data.
type Bootstrap struct {
	InitDB   *InitDB   `json:"initdb,omitempty"`
	Recovery *Recovery `json:"recovery,omitempty"`
}

// InitDB begins with no data.
type InitDB struct {
	Database                   string     `json:"database,omitempty"`
	Owner                      string     `json:"owner,omitempty"`
	Secret                     *Reference `json:"secret,omitempty"`
	DataChecksums              *bool      `json:"dataChecksums,omitempty"`
	Encoding                   string     `json:"encoding,omitempty"`
	LocaleCollate              string     `json:"localeCollate,omitempty"`
	LocaleCType                string     `json:"localeCType,omitempty"`
	PostInitSQLRefs            *SQLRefs   `json:"postInitSQLRefs,omitempty"`
	PostInitTemplateSQLRefs    *SQLRefs   `json:"postInitTemplateSQLRefs,omitempty"`
	PostInitApplicationSQLRefs *SQLRefs   `json:"postInitApplicationSQLRefs,omitempty"`
}

// Reference is the name of an object in the same namespace.
type Reference struct {
	Name string `json:"name"`
}

// SQLRefs is where SQL is kept.
type SQLRefs struct {
	SecretRefs []KeyReference `json:"secretRefs,omitempty"`
}

// KeyReference is a key of a secret.
type KeyReference struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// Certificates names the secrets with the server's.
type Certificates struct {
	ServerCASecret  string `json:"serverCASecret,omitempty"`
	ServerTLSSecret string `json:"serverTLSSecret,omitempty"`
}

// PostgreSQL is the servers' configuration.
type PostgreSQL struct {
	Parameters  map[string]string `json:"parameters,omitempty"`
	PgHBA       []string          `json:"pg_hba,omitempty"`
	Synchronous *Synchronous      `json:"synchronous,omitempty"`
}

// Synchronous is how many replicas confirm a commit.
type Synchronous struct {
	Method         string `json:"method"`
	Number         int    `json:"number"`
	DataDurability string `json:"dataDurability,omitempty"`
	FailoverQuorum bool   `json:"failoverQuorum,omitempty"`
}

// Storage is an instance's volume.
type Storage struct {
	Size               string  `json:"size,omitempty"`
	StorageClass       *string `json:"storageClass,omitempty"`
	ResizeInUseVolumes *bool   `json:"resizeInUseVolumes,omitempty"`
}

// ClusterStatus is what the operator says. It has no generation that it is of, and says that a cluster is healthy before
// and after it is: see the driver for what to make of it.
type ClusterStatus struct {
	Phase                               string             `json:"phase,omitempty"`
	PhaseReason                         string             `json:"phaseReason,omitempty"`
	Instances                           int                `json:"instances,omitempty"`
	ReadyInstances                      int                `json:"readyInstances,omitempty"`
	CurrentPrimary                      string             `json:"currentPrimary,omitempty"`
	TargetPrimary                       string             `json:"targetPrimary,omitempty"`
	TargetPrimaryTimestamp              string             `json:"targetPrimaryTimestamp,omitempty"`
	CurrentPrimaryTimestamp             string             `json:"currentPrimaryTimestamp,omitempty"`
	CurrentPrimaryFailingSinceTimestamp string             `json:"currentPrimaryFailingSinceTimestamp,omitempty"`
	TimelineID                          int                `json:"timelineID,omitempty"`
	Image                               string             `json:"image,omitempty"`
	Conditions                          []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterList is several.
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Cluster `json:"items"`
}

// ImageCatalog is which image to run for which major version, in a namespace. steward only reads it.
type ImageCatalog struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              ImageCatalogSpec `json:"spec"`
}

// ImageCatalogSpec is an image for each major version.
type ImageCatalogSpec struct {
	Images []CatalogImage `json:"images"`
}

// CatalogImage is the image of a major version; its tag begins with its version.
type CatalogImage struct {
	Major int    `json:"major"`
	Image string `json:"image"`
}

// ImageCatalogList is several.
type ImageCatalogList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []ImageCatalog `json:"items"`
}

// HibernationAnnotation asks for no instance to run, with Hibernated, and HibernationCondition says that none does.
const (
	HibernationAnnotation = "cnpg.io/hibernation"
	Hibernated            = "on"
	Awake                 = "off"
	HibernationCondition  = "cnpg.io/hibernation"
)

// ReadOnlyParameter is the setting by which a server takes no writes.
const ReadOnlyParameter = "default_transaction_read_only"

// RestartAnnotation has the operator make each Pod anew that has another value of it, and give the Pod this one.
const RestartAnnotation = "kubectl.kubernetes.io/restartedAt"

// Labels of what the operator makes, and of secrets that it is to read again when they change.
const (
	ClusterLabel = "cnpg.io/cluster"
	RoleLabel    = "cnpg.io/instanceRole"
	PrimaryRole  = "primary"
	ReplicaRole  = "replica"
	PodRoleLabel = "cnpg.io/podRole"
	InstanceRole = "instance"
	ReloadLabel  = "cnpg.io/reload"
)

// Ports of an instance: the server's, and the one where the operator asks how it does. Container is its name.
const (
	ServerPort = 5432
	StatusPort = 8000
	Container  = "postgres"
)

// Image is what servers run.
func (c *Cluster) Image() string { return c.Spec.ImageName }

// Members is how many servers there are to be.
func (c *Cluster) Members() int { return c.Spec.Instances }

// Disk is the size of each one's volume.
func (c *Cluster) Disk() string { return c.Spec.Storage.Size }

// Limits is what a server's container gets.
func (c *Cluster) Limits() corev1.ResourceList { return c.Spec.Resources.Limits }

// Rests reports whether no server is to run.
func (c *Cluster) Rests() bool { return c.Annotations[HibernationAnnotation] == Hibernated }

// ReadOnly reports whether servers are to take no writes.
func (c *Cluster) ReadOnly() bool { return c.Spec.PostgreSQL.Parameters[ReadOnlyParameter] == "on" }

// Leader is the Pod that the operator takes for the primary's; "" for none.
func (c *Cluster) Leader() string { return c.Status.CurrentPrimary }

// Says is what the operator says of the cluster, for people.
func (c *Cluster) Says() string {
	if c.Status.PhaseReason == "" {
		return c.Status.Phase
	}
	return c.Status.Phase + ": " + c.Status.PhaseReason
}

// Timeline counts changes of the primary, from 1; 0 while nobody knows.
func (c *Cluster) Timeline() int { return c.Status.TimelineID }

// Again is the object to be written again, with what is ours of its names, and servers that rest or don't.
func (c *Cluster) Again(mine metav1.ObjectMeta, rests bool) client.Object {
	mine.Annotations[HibernationAnnotation] = Awake
	if rests {
		mine.Annotations[HibernationAnnotation] = Hibernated
	}
	return &Cluster{TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: "Cluster"}, ObjectMeta: mine, Spec: c.Spec}
}
