// Package mariadb has of mariadb-operator's objects exactly the fields that steward writes and reads. What they mean is in that
// operator's own documentation, for version 26.6.
package mariadb

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GroupVersion is what the types belong to.
var GroupVersion = schema.GroupVersion{Group: "k8s.mariadb.com", Version: "v1alpha1"}

// MariaDB is a cluster of servers. steward writes Spec and reads Status.
type MariaDB struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`
}

// Spec is what is asked for.
type Spec struct {
	Image                    string                      `json:"image,omitempty"`
	Replicas                 int                         `json:"replicas"`
	InheritMetadata          *Metadata                   `json:"inheritMetadata,omitempty"`
	PodMetadata              *Metadata                   `json:"podMetadata,omitempty"`
	RootPasswordSecretKeyRef *KeyReference               `json:"rootPasswordSecretKeyRef,omitempty"`
	MyCnf                    string                      `json:"myCnf,omitempty"`
	Env                      []EnvVar                    `json:"env,omitempty"`
	Volumes                  []Volume                    `json:"volumes,omitempty"`
	VolumeMounts             []VolumeMount               `json:"volumeMounts,omitempty"`
	Storage                  Storage                     `json:"storage,omitzero"`
	Resources                corev1.ResourceRequirements `json:"resources,omitzero"`
	TLS                      *TLS                        `json:"tls,omitempty"`
	UpdateStrategy           *UpdateStrategy             `json:"updateStrategy,omitempty"`
	Maintenance              *Maintenance                `json:"maintenance,omitempty"`
	StartupProbe             *Probe                      `json:"startupProbe,omitempty"`
	ReadinessProbe           *Probe                      `json:"readinessProbe,omitempty"`
	TerminationGracePeriod   *int                        `json:"terminationGracePeriodSeconds,omitempty"`
	BootstrapFrom            *BootstrapFrom              `json:"bootstrapFrom,omitempty"`
}

// Metadata is what the operator gives to all that it makes, or to Pods.
type Metadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Reference is the name of an object in the same namespace.
type Reference struct {
	Name string `json:"name"`
}

// KeyReference is a key of a secret.
type KeyReference struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// EnvVar is a variable of the server's container.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// Volume has a secret's keys as files.
type Volume struct {
	Name   string        `json:"name"`
	Secret *SecretVolume `json:"secret,omitempty"`
}

// SecretVolume names the secret.
type SecretVolume struct {
	SecretName string `json:"secretName"`
}

// VolumeMount is where a volume is in the server's container.
type VolumeMount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

// Storage is a server's volume.
type Storage struct {
	ResizeInUseVolumes  *bool                `json:"resizeInUseVolumes,omitempty"`
	RetentionPolicy     *RetentionPolicy     `json:"pvcRetentionPolicy,omitempty"`
	VolumeClaimTemplate *VolumeClaimTemplate `json:"volumeClaimTemplate,omitempty"`
}

// RetentionPolicy says when volumes go: Delete or Retain.
type RetentionPolicy struct {
	WhenDeleted string `json:"whenDeleted"`
	WhenScaled  string `json:"whenScaled"`
}

// VolumeClaimTemplate is what volumes are made by.
type VolumeClaimTemplate struct {
	Metadata         *Metadata                           `json:"metadata,omitempty"`
	AccessModes      []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`
	StorageClassName *string                             `json:"storageClassName,omitempty"`
	Resources        corev1.VolumeResourceRequirements   `json:"resources,omitzero"`
}

// TLS names the secrets with the server's certificate and the authority that issued it.
type TLS struct {
	Enabled             bool       `json:"enabled"`
	Required            *bool      `json:"required,omitempty"`
	ServerCASecretRef   *Reference `json:"serverCASecretRef,omitempty"`
	ServerCertSecretRef *Reference `json:"serverCertSecretRef,omitempty"`
}

// UpdateStrategy is in which order Pods are replaced.
type UpdateStrategy struct {
	Type string `json:"type"`
}

// RollingUpdate leaves it to Kubernetes, which replaces a Pod that never gets ready, too. By default the operator does it, and waits for the Pod to
// be ready first: one that can't start is never mended.
const RollingUpdate = "RollingUpdate"

// Maintenance has the operator keep servers from taking writes.
type Maintenance struct {
	Enabled  bool `json:"enabled,omitempty"`
	ReadOnly bool `json:"readOnly,omitempty"`
}

// Probe is how often is looked whether a server answers, in seconds. How is the operator's.
type Probe struct {
	InitialDelaySeconds int `json:"initialDelaySeconds,omitempty"`
	PeriodSeconds       int `json:"periodSeconds,omitempty"`
	TimeoutSeconds      int `json:"timeoutSeconds,omitempty"`
	FailureThreshold    int `json:"failureThreshold,omitempty"`
}

// Status is what the operator says. It has no generation that it is of.
type Status struct {
	Conditions     []metav1.Condition `json:"conditions,omitempty"`
	Replicas       int                `json:"replicas,omitempty"`
	CurrentPrimary string             `json:"currentPrimary,omitempty"`
}

// List is several.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []MariaDB `json:"items"`
}

// Labels of what the operator makes.
const (
	AppLabel      = "app.kubernetes.io/name"
	App           = "mariadb"
	InstanceLabel = "app.kubernetes.io/instance"
	RoleLabel     = "k8s.mariadb.com/role"
	PrimaryRole   = "primary"
	ReplicaRole   = "replica"
)

// ServerPort is a server's, and Container its name.
const (
	ServerPort = 3306
	Container  = "mariadb"
)

// MembersAnnotation is ours: how many servers there are to be when they don't rest.
const MembersAnnotation = "steward/members"

// AddToScheme makes the types known.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(GroupVersion.WithKind("MariaDB"), &MariaDB{})
	s.AddKnownTypeWithName(GroupVersion.WithKind("MariaDBList"), &List{})
	s.AddKnownTypeWithName(GroupVersion.WithKind("PhysicalBackup"), &PhysicalBackup{})
	s.AddKnownTypeWithName(GroupVersion.WithKind("PhysicalBackupList"), &PhysicalBackupList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// DeepCopyObject implements runtime.Object.
func (m *MariaDB) DeepCopyObject() runtime.Object { return copied(m, new(MariaDB)) }

// DeepCopyObject implements runtime.Object.
func (l *List) DeepCopyObject() runtime.Object { return copied(l, new(List)) }

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

// Image is what servers run.
func (m *MariaDB) Image() string { return m.Spec.Image }

// Members is how many servers there are to be, resting or not.
func (m *MariaDB) Members() int {
	if n, err := strconv.Atoi(m.Annotations[MembersAnnotation]); err == nil {
		return n
	}
	return m.Spec.Replicas
}

// Disk is the size of each one's volume.
func (m *MariaDB) Disk() string {
	if m.Spec.Storage.VolumeClaimTemplate == nil {
		return ""
	}
	size := m.Spec.Storage.VolumeClaimTemplate.Resources.Requests[corev1.ResourceStorage]
	return size.String()
}

// Limits is what a server's container gets.
func (m *MariaDB) Limits() corev1.ResourceList { return m.Spec.Resources.Limits }

// Rests reports whether no server is to run.
func (m *MariaDB) Rests() bool { return m.Spec.Replicas == 0 }

// ReadOnly reports whether servers are to take no writes.
func (m *MariaDB) ReadOnly() bool { return m.Spec.Maintenance != nil && m.Spec.Maintenance.ReadOnly }

// Leader is the Pod that the operator takes for the primary's; "" for none.
func (m *MariaDB) Leader() string { return m.Status.CurrentPrimary }

// Says is what the operator says of the cluster, for people.
func (m *MariaDB) Says() string {
	for _, c := range m.Status.Conditions {
		if c.Type == "Ready" {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// Timeline isn't counted.
func (m *MariaDB) Timeline() int { return 0 }

// Again is the object to be written again, with what is ours of its names, and servers that rest or don't.
func (m *MariaDB) Again(mine metav1.ObjectMeta, rests bool) client.Object {
	again := &MariaDB{TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: "MariaDB"}, ObjectMeta: mine, Spec: m.Spec}
	again.Spec.Replicas = m.Members()
	if rests {
		again.Spec.Replicas = 0
	}
	return again
}
