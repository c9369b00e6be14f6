package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/mariadb"
)

// Driver is a platform.Driver for one namespace.
type Driver struct {
	o Options
	// operators are those of the region; postgres is one of them, which has restores and backups, too.
	operators []operator
	postgres  cloudNativePG
	// live asks the API server, seen what was watched of it: the former counts while something is changed.
	live client.Client
	seen cache.Cache
	// core asks for what is no object.
	core    rest.Interface
	changes chan cluster.ID
	end     context.CancelFunc
	ended   chan struct{}

	usages podUsages

	mu    sync.Mutex
	known map[cluster.ID]*memory
}

// LogTo has the libraries write into our log. They have one for a process: call it once, before New.
func LogTo(logger *slog.Logger) {
	log.SetLogger(logr.FromSlogHandler(logger.Handler()))
	klog.SetSlogLogger(logger)
}

var _ platform.Driver = (*Driver)(nil)

// Scheme has the types that are used.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, networkingv1.AddToScheme, cnpg.AddToScheme, mariadb.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("make known what types there are: %w", err)
		}
	}
	return s, nil
}

// New connects, and returns when it has seen all that is there. Close ends what it watches.
func New(ctx context.Context, o Options) (*Driver, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if o.Owner == "" {
		return nil, errors.New("an owner is required")
	}
	told, ok := o.Engine.(engine.Told)
	if !ok {
		return nil, errors.New("the engine's servers can't be set up by an operator")
	}
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	live, err := client.New(o.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("prepare requests: %w", err)
	}
	core, err := coreClient(o.Config)
	if err != nil {
		return nil, err
	}
	d := &Driver{
		o: o, live: client.WithFieldValidation(live, "Strict"), core: core,
		changes: make(chan cluster.ID, 64), known: map[cluster.ID]*memory{}, ended: make(chan struct{}),
	}
	d.postgres = cloudNativePG{d: d, pg: o.Engine, told: told, offer: &offer{}}
	d.operators = []operator{d.postgres}
	if o.MariaDBImages != "" {
		placed, ok := o.MariaDB.(engine.Placed)
		if !ok {
			return nil, errors.New("MariaDB's servers can't be set up by an operator")
		}
		d.operators = append(d.operators, mariaDBOperator{d: d, my: o.MariaDB, placed: placed, offer: &offer{}})
	}
	if err := d.Check(ctx); err != nil {
		return nil, err
	}
	if err := d.claim(ctx); err != nil {
		return nil, err
	}
	if err := d.watch(ctx, scheme); err != nil {
		return nil, err
	}
	return d, nil
}

// coreClient asks the API server by paths.
func coreClient(config *rest.Config) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	c, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare requests: %w", err)
	}
	return c, nil
}

// watch keeps what bears our label, and tells of changes.
func (d *Driver) watch(ctx context.Context, scheme *runtime.Scheme) error {
	ours, err := labels.NewRequirement(clusterLabel, selection.Exists, nil)
	if err != nil {
		return err
	}
	d.seen, err = cache.New(d.o.Config, cache.Options{
		Scheme: scheme, Mapper: d.live.RESTMapper(), DefaultNamespaces: map[string]cache.Config{d.o.Namespace: {}},
		DefaultLabelSelector: labels.NewSelector().Add(*ours), DefaultUnsafeDisableDeepCopy: new(true),
		DefaultTransform: stripped,
	})
	if err != nil {
		return fmt.Errorf("prepare to watch: %w", err)
	}
	background, end := context.WithCancel(context.Background())
	d.end = end
	go func() {
		defer close(d.ended)
		if err := d.seen.Start(background); err != nil {
			d.o.Logger.Error("nothing is watched any more", "namespace", d.o.Namespace, "error", err)
		}
	}()
	kinds := []client.Object{&corev1.Pod{}, &corev1.Service{}}
	for _, op := range d.operators {
		kinds = append(kinds, op.blank())
	}
	for _, kind := range kinds {
		informer, err := d.seen.GetInformer(ctx, kind)
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				UpdateFunc: func(before, after any) { d.notice(before, after) },
				DeleteFunc: func(gone any) { d.notice(gone, nil) },
			})
		}
		if err != nil {
			d.Close()
			return fmt.Errorf("watch: %w", err)
		}
	}
	if !d.seen.WaitForCacheSync(ctx) {
		d.Close()
		return fmt.Errorf("see what is there: %w", ctx.Err())
	}
	return nil
}

// Close ends what is watched. Clusters go on.
func (d *Driver) Close() {
	d.end()
	<-d.ended
	d.usages.asking.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.known {
		m.close()
	}
}

// notice tells of a Pod whose readiness or life changed, or that is gone.
func (d *Driver) notice(before, after any) {
	if gone, unknown := before.(toolscache.DeletedFinalStateUnknown); unknown {
		before = gone.Obj
	}
	was, ok := before.(*corev1.Pod)
	if !ok {
		return
	}
	if is, still := after.(*corev1.Pod); still && life(was) == life(is) && ready(was) == ready(is) {
		return
	}
	if id, ok := idOf(was); ok {
		d.forgetProbes(id)
		select {
		case d.changes <- id:
		default: // it is a hint
		}
	}
}

// Changes implements platform.Driver.
func (d *Driver) Changes() <-chan cluster.ID { return d.changes }
