package mariadb

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PhysicalBackup is a copy of a server's files to be taken, or that was. Without a schedule it is taken once. steward writes Spec and reads Status.
type PhysicalBackup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   BackupSpec   `json:"spec"`
	Status BackupStatus `json:"status,omitzero"`
}

// BackupSpec is what is asked for.
type BackupSpec struct {
	MariaDBRef      Reference     `json:"mariaDbRef"`
	Target          string        `json:"target,omitempty"`
	Compression     string        `json:"compression,omitempty"`
	Storage         BackupStorage `json:"storage"`
	StagingStorage  *Staging      `json:"stagingStorage,omitempty"`
	MaxRetention    string        `json:"maxRetention,omitempty"`
	Timeout         string        `json:"timeout,omitempty"`
	BackoffLimit    int           `json:"backoffLimit,omitempty"`
	RestartPolicy   string        `json:"restartPolicy,omitempty"`
	InheritMetadata *Metadata     `json:"inheritMetadata,omitempty"`
}

// PreferReplica takes a backup of the primary where no replica is well, and Gzip makes it smaller.
const (
	PreferReplica = "PreferReplica"
	Gzip          = "gzip"
)

// BackupStorage is where backups are put.
type BackupStorage struct {
	S3 *S3 `json:"s3,omitempty"`
}

// S3 is a place in a bucket. Its endpoint has no scheme.
type S3 struct {
	Bucket          string        `json:"bucket"`
	Endpoint        string        `json:"endpoint"`
	Prefix          string        `json:"prefix,omitempty"`
	Region          string        `json:"region,omitempty"`
	AccessKeyID     *KeyReference `json:"accessKeyIdSecretKeyRef,omitempty"`
	SecretAccessKey *KeyReference `json:"secretAccessKeySecretKeyRef,omitempty"`
	SessionToken    *KeyReference `json:"sessionTokenSecretKeyRef,omitempty"`
	TLS             *S3TLS        `json:"tls,omitempty"`
}

// S3TLS says whether the bucket is asked by TLS, and who issued its certificate.
type S3TLS struct {
	Enabled     bool          `json:"enabled,omitempty"`
	CASecretRef *KeyReference `json:"caSecretKeyRef,omitempty"`
}

// Staging is where files lie on their way to a bucket or from it: by default on the machine's own disk.
type Staging struct {
	Claim *Claim `json:"persistentVolumeClaim,omitempty"`
}

// Claim is a volume that is there for as long as it is needed.
type Claim struct {
	AccessModes      []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`
	StorageClassName *string                             `json:"storageClassName,omitempty"`
	Resources        corev1.VolumeResourceRequirements   `json:"resources,omitzero"`
}

// BackupStatus is what came of it.
type BackupStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Reasons of the condition Complete. It is true of a backup that failed, too.
const (
	ConditionComplete = "Complete"
	JobComplete       = "JobComplete"
	JobRunning        = "JobRunning"
	JobFailed         = "JobFailed"
)

// Complete is the condition of that name; nil while there is none.
func (b *PhysicalBackup) Complete() *metav1.Condition {
	for i := range b.Status.Conditions {
		if c := &b.Status.Conditions[i]; c.Type == ConditionComplete {
			return c
		}
	}
	return nil
}

// Failed reports whether nothing comes of it any more.
func (b *PhysicalBackup) Failed() bool {
	c := b.Complete()
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason != JobComplete
}

// PhysicalBackupList is several.
type PhysicalBackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []PhysicalBackup `json:"items"`
}

// BootstrapFrom has the first server begin with a backup: the newest in the place. What is in it says the content type, since nobody can see that.
type BootstrapFrom struct {
	S3                *S3      `json:"s3,omitempty"`
	BackupContentType string   `json:"backupContentType,omitempty"`
	StagingStorage    *Staging `json:"stagingStorage,omitempty"`
}

// Physical is the content of a PhysicalBackup.
const Physical = "Physical"

// InitSuffix ends the name of the job that brings a backup into a server's volume, after the server's.
const InitSuffix = "-pb-init"

// DeepCopyObject implements runtime.Object.
func (b *PhysicalBackup) DeepCopyObject() runtime.Object { return copied(b, new(PhysicalBackup)) }

// DeepCopyObject implements runtime.Object.
func (l *PhysicalBackupList) DeepCopyObject() runtime.Object {
	return copied(l, new(PhysicalBackupList))
}
