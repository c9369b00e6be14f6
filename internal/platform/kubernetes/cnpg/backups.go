package cnpg

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// BarmanPlugin is the name of the plugin that archives, backs up and restores (plugin-barman-cloud 0.14): CloudNativePG's own way to do that is
// deprecated in 1.30 and gone in 1.31.
const BarmanPlugin = "barman-cloud.cloudnative-pg.io"

// Parameters of BarmanPlugin: the ObjectStore, and the folder in it.
const (
	BarmanObjectName = "barmanObjectName"
	ServerName       = "serverName"
)

// Plugin is one that a cluster uses.
type Plugin struct {
	Name          string            `json:"name"`
	Enabled       *bool             `json:"enabled,omitempty"`
	IsWALArchiver *bool             `json:"isWALArchiver,omitempty"`
	Parameters    map[string]string `json:"parameters,omitempty"`
}

// ExternalCluster is where a recovery reads from.
type ExternalCluster struct {
	Name   string  `json:"name"`
	Plugin *Plugin `json:"plugin,omitempty"`
}

// Recovery begins with a backup. The owner's password becomes that of the secret.
type Recovery struct {
	Source         string          `json:"source,omitempty"`
	Database       string          `json:"database,omitempty"`
	Owner          string          `json:"owner,omitempty"`
	Secret         *Reference      `json:"secret,omitempty"`
	RecoveryTarget *RecoveryTarget `json:"recoveryTarget,omitempty"`
}

// RecoveryTarget is where a recovery ends; without time or immediately, at the end of what was archived.
type RecoveryTarget struct {
	BackupID        string `json:"backupID,omitempty"`
	TargetTime      string `json:"targetTime,omitempty"`
	TargetImmediate *bool  `json:"targetImmediate,omitempty"`
}

// Backup is one to be taken, or that was. steward writes Spec and reads Status.
type Backup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   BackupSpec   `json:"spec"`
	Status BackupStatus `json:"status,omitzero"`
}

// BackupSpec is what is asked for.
type BackupSpec struct {
	Cluster             Reference  `json:"cluster"`
	Method              string     `json:"method,omitempty"`
	Target              string     `json:"target,omitempty"`
	PluginConfiguration *Reference `json:"pluginConfiguration,omitempty"`
}

// Targets of a backup. Without a replica that is well it is the primary's.
const (
	TargetPrimary       = "primary"
	TargetPreferStandby = "prefer-standby"
	// MethodPlugin is the method that asks a plugin.
	MethodPlugin = "plugin"
)

// Phases of a backup. One that waits for others has none.
const (
	PhasePending    = "pending"
	PhaseStarted    = "started"
	PhaseRunning    = "running"
	PhaseFinalizing = "finalizing"
	PhaseCompleted  = "completed"
	PhaseFailed     = "failed"
	PhaseWALFailing = "walArchivingFailing"
	PhaseInvalid    = "invalid backup definition"
)

// JobLabel is on the Pods of jobs, which make an instance's data; RecoveryJob recovers it.
const (
	JobLabel    = "cnpg.io/jobRole"
	RecoveryJob = "full-recovery"
)

// BackupStatus is what came of it. WAL is named by segments.
type BackupStatus struct {
	Phase     string       `json:"phase,omitempty"`
	Error     string       `json:"error,omitempty"`
	BackupID  string       `json:"backupId,omitempty"`
	BeginWAL  string       `json:"beginWal,omitempty"`
	EndWAL    string       `json:"endWal,omitempty"`
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	StoppedAt *metav1.Time `json:"stoppedAt,omitempty"`
}

// BackupList is several.
type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Backup `json:"items"`
}

// BarmanGroupVersion is what ObjectStore belongs to.
var BarmanGroupVersion = schema.GroupVersion{Group: "barmancloud.cnpg.io", Version: "v1"}

// ObjectStore is where BarmanPlugin keeps what it archives. steward only reads it.
type ObjectStore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              ObjectStoreSpec `json:"spec"`
}

// ObjectStoreSpec is what steward needs to know of it. With a RetentionPolicy the plugin drops backups by itself.
type ObjectStoreSpec struct {
	Configuration   BarmanConfiguration `json:"configuration"`
	RetentionPolicy string              `json:"retentionPolicy,omitempty"`
}

// BarmanConfiguration is a bucket that speaks S3, and a path in it: s3://BUCKET/PATH.
type BarmanConfiguration struct {
	DestinationPath string         `json:"destinationPath"`
	EndpointURL     string         `json:"endpointURL,omitempty"`
	EndpointCA      *KeyReference  `json:"endpointCA,omitempty"`
	S3Credentials   *S3Credentials `json:"s3Credentials,omitempty"`
}

// S3Credentials says in which secrets they are.
type S3Credentials struct {
	AccessKeyID        *KeyReference `json:"accessKeyId,omitempty"`
	SecretAccessKey    *KeyReference `json:"secretAccessKey,omitempty"`
	Region             *KeyReference `json:"region,omitempty"`
	SessionToken       *KeyReference `json:"sessionToken,omitempty"`
	InheritFromIAMRole bool          `json:"inheritFromIAMRole,omitempty"`
}

// ObjectStoreList is several.
type ObjectStoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []ObjectStore `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (b *Backup) DeepCopyObject() runtime.Object { return copied(b, new(Backup)) }

// DeepCopyObject implements runtime.Object.
func (b *BackupList) DeepCopyObject() runtime.Object { return copied(b, new(BackupList)) }

// DeepCopyObject implements runtime.Object.
func (o *ObjectStore) DeepCopyObject() runtime.Object { return copied(o, new(ObjectStore)) }

// DeepCopyObject implements runtime.Object.
func (o *ObjectStoreList) DeepCopyObject() runtime.Object { return copied(o, new(ObjectStoreList)) }
