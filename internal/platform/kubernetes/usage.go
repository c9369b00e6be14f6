package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"steward/internal/measure"
)

// metricsGroup is the API in which a metrics server, where there is one, tells what Pods use.
const metricsGroup = "metrics.k8s.io"

// usageEvery is how often it is asked what Pods use, of all databases at once; usageAbsent how often where nobody tells. What was told
// last counts for usageKept.
const (
	usageEvery  = 8 * time.Second
	usageAbsent = time.Minute
	usageKept   = 30 * time.Second
)

// usage is what a server's container uses: processors, as a mean of the last seconds, and bytes of memory, without what
// the kernel could drop.
type usage struct{ processors, memory float64 }

// podUsages are those of all Pods of the namespace.
type podUsages struct {
	asking sync.WaitGroup

	mu    sync.Mutex
	byPod map[string]usage
	// told is when that was, and next when it is asked again.
	told, next time.Time
}

// usageOf is what a Pod uses, as it was told last; false where that isn't known. Nobody waits for who tells.
func (d *Driver) usageOf(p *corev1.Pod) (usage, bool) {
	u, now := &d.usages, d.o.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if !now.Before(u.next) {
		u.next = now.Add(usageAbsent) // unless somebody answers
		u.asking.Go(d.askUsage)
	}
	found, ok := u.byPod[p.Name]
	return found, ok && now.Sub(u.told) < usageKept
}

func (d *Driver) askUsage() {
	found, err := readUsage(context.Background(), d.core, d.o.Namespace)
	if err != nil {
		d.o.Logger.Debug("what Pods use isn't known", "namespace", d.o.Namespace, "error", err)
		return
	}
	u := &d.usages
	u.mu.Lock()
	defer u.mu.Unlock()
	u.byPod, u.told = found, d.o.Now()
	u.next = u.told.Add(usageEvery)
}

// readUsage asks what Pods that run databases use.
func readUsage(ctx context.Context, core rest.Interface, namespace string) (map[string]usage, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	text, err := core.Get().AbsPath("/apis", metricsGroup, "v1beta1", "namespaces", namespace, "pods").Param("labelSelector", clusterLabel).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("ask what Pods use: %w", err)
	}
	var list struct {
		Items []struct {
			Metadata   struct{ Name string }
			Containers []struct {
				Name  string
				Usage corev1.ResourceList
			}
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read what Pods use: %w", err)
	}
	all := make(map[string]usage, len(list.Items))
	for _, pod := range list.Items {
		for _, c := range pod.Containers {
			if slices.Contains(serverContainers, c.Name) {
				all[pod.Metadata.Name] = usage{c.Usage.Cpu().AsApproximateFloat64(), c.Usage.Memory().AsApproximateFloat64()}
			}
		}
	}
	return all, nil
}

// measureUsage adds what a Pod's server uses of its plan.
func (d *Driver) measureUsage(r *measure.Reading, v view, p *corev1.Pod) {
	used, ok := d.usageOf(p)
	if !ok {
		return
	}
	r.Set(measure.CPUUsage, used.processors/r.CPUs*100)
	r.SetShare(used.memory, float64(planOf(v.object).MemoryMB)*(1<<20), measure.MemoryUsed, measure.MemoryUsage, measure.AvailableMemory)
}

// usage looks at whether somebody tells what Pods use.
func (e *examination) usage(ctx context.Context) {
	const look = "kubectl get apiservices v1beta1." + metricsGroup
	core, err := coreClient(e.o.Config)
	if err == nil {
		_, err = readUsage(ctx, core, e.o.Namespace)
	}
	switch {
	case apierrors.IsNotFound(err):
		e.note("there is no metrics server, and so processor and memory aren't among the databases' metrics", look)
	case apierrors.IsForbidden(err): // it is told among the rights that are missing
	case err != nil:
		e.note(fmt.Sprintf("processor and memory aren't among the databases' metrics: %v", err), look)
	}
}
