package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// provisioner is who makes the volumes of a StorageClass.
	provisioner = "steward/kubenode"
	// classAnnotation and nodeAnnotation are what Kubernetes marks a claim with that waits for a volume, on the node of its first Pod.
	classAnnotation = "volume.kubernetes.io/storage-provisioner"
	nodeAnnotation  = "volume.kubernetes.io/selected-node"
	madeAnnotation  = "pv.kubernetes.io/provisioned-by"
	// inMemory is the StorageClass whose volumes have the size that they were asked for with, and can be full.
	inMemory = "memory"
)

// bringVolumes makes volumes that are waited for, lets them grow, and removes those that nobody has any more.
func (w *world) bringVolumes(ctx context.Context) error {
	core := w.all.Core().V1()
	claims, err := core.PersistentVolumeClaims().Lister().List(everything())
	if err != nil {
		return err
	}
	volumes, err := core.PersistentVolumes().Lister().List(everything())
	if err != nil {
		return err
	}
	var errs []error
	there := map[string]*corev1.PersistentVolume{}
	for _, v := range volumes {
		there[v.Name] = v
		if v.Annotations[madeAnnotation] == provisioner && v.Status.Phase == corev1.VolumeReleased && v.DeletionTimestamp == nil {
			errs = append(errs, failed("remove", v.Name, w.removeVolume(ctx, v)))
		}
	}
	for _, c := range claims {
		v := there["pvc-"+string(c.UID)]
		switch {
		case c.Annotations[classAnnotation] != provisioner || c.DeletionTimestamp != nil:
		case v == nil && c.Status.Phase == corev1.ClaimPending && c.Annotations[nodeAnnotation] != "":
			errs = append(errs, failed("make a volume for", c.Name, w.makeVolume(ctx, c)))
		case v != nil && c.Status.Phase == corev1.ClaimBound && larger(wanted(c), v.Spec.Capacity[corev1.ResourceStorage]):
			errs = append(errs, failed("let grow", v.Name, w.growVolume(ctx, c, v)))
		}
	}
	return errors.Join(errs...)
}

func wanted(c *corev1.PersistentVolumeClaim) resource.Quantity {
	return c.Spec.Resources.Requests[corev1.ResourceStorage]
}

func larger(a, b resource.Quantity) bool { return a.Cmp(b) > 0 }

func (w *world) makeVolume(ctx context.Context, c *corev1.PersistentVolumeClaim) error {
	name := "pvc-" + string(c.UID)
	path := filepath.Join(w.volumes, name)
	if err := os.Mkdir(path, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	} else if err == nil && *c.Spec.StorageClassName == inMemory {
		if err := syscall.Mount("steward", path, "tmpfs", 0, size(wanted(c))); err != nil {
			return errors.Join(err, os.Remove(path))
		}
	}
	if err := os.Chmod(path, 0o777); err != nil {
		return err
	}
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{madeAnnotation: provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: wanted(c)}, AccessModes: c.Spec.AccessModes,
			StorageClassName: *c.Spec.StorageClassName, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:               &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{c.Annotations[nodeAnnotation]}},
				},
			}}}},
		},
	}
	_, err := w.client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // our watch is behind
		return nil
	}
	return err
}

func size(q resource.Quantity) string { return fmt.Sprintf("size=%d,mode=777", q.Value()) }

func (w *world) growVolume(ctx context.Context, c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) error {
	if v.Spec.StorageClassName == inMemory {
		if err := syscall.Mount("steward", v.Spec.Local.Path, "tmpfs", syscall.MS_REMOUNT, size(wanted(c))); err != nil {
			return err
		}
	}
	v, c = v.DeepCopy(), c.DeepCopy()
	v.Spec.Capacity[corev1.ResourceStorage] = wanted(c)
	if _, err := w.client.CoreV1().PersistentVolumes().Update(ctx, v, metav1.UpdateOptions{}); err != nil {
		return err
	}
	c.Status.Capacity, c.Status.Conditions = v.Spec.Capacity, nil
	_, err := w.client.CoreV1().PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, c, metav1.UpdateOptions{})
	return err
}

func (w *world) removeVolume(ctx context.Context, v *corev1.PersistentVolume) error {
	if v.Spec.StorageClassName == inMemory {
		if err := syscall.Unmount(v.Spec.Local.Path, 0); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
			return err
		}
	}
	if err := os.RemoveAll(v.Spec.Local.Path); err != nil {
		return err
	}
	err := w.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
