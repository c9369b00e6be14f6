package simulator

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/wait"
)

// attentive is the client of an operator that looks every so often: it asks the API server for what is in a namespace only when something may have changed there
// since it asked last, which the API server tells it, and returns what it was answered then. Who changes what it returned has to write it.
type attentive struct {
	client.WithWatch

	mu    sync.Mutex
	kinds map[schema.GroupKind]*attended
	// deaf is how many kinds aren't watched at the moment: nothing is known for sure then.
	deaf int
}

// attended is a kind that is watched.
type attended struct {
	// changes counts them, and known are answers since the last, by what was asked for.
	changes int
	known   map[string]any
}

func (k *attended) forget() {
	k.changes++
	clear(k.known)
}

// newAttentive watches the kinds of some lists until the test ends, but for the clean-ups that are registered later.
func newAttentive(t testing.TB, c client.WithWatch, namespace string, lists ...client.ObjectList) *attentive {
	t.Helper()
	a := &attentive{WithWatch: c, kinds: map[schema.GroupKind]*attended{}, deaf: len(lists)}
	for _, list := range lists {
		a.kinds[a.kindOf(list)] = &attended{known: map[string]any{}}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	for _, list := range lists {
		watching.Go(func() { a.follow(ctx, list, namespace) })
	}
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	return a
}

// kindOf is the kind of an object, or of those in a list; none of one that isn't known.
func (a *attentive) kindOf(o runtime.Object) schema.GroupKind {
	kind, err := a.GroupVersionKindFor(o)
	if err != nil {
		return schema.GroupKind{}
	}
	return schema.GroupKind{Group: kind.Group, Kind: strings.TrimSuffix(kind.Kind, "List")}
}

// follow notices each change of a kind, from what the API server has in its memory on: to wait until that is of now, where nothing changes, takes it seconds.
func (a *attentive) follow(ctx context.Context, list client.ObjectList, namespace string) {
	kind := a.kindOf(list)
	for ctx.Err() == nil {
		events, err := a.Watch(ctx, list, &client.ListOptions{Namespace: namespace, Raw: &metav1.ListOptions{ResourceVersion: "0"}})
		if err != nil { // the API server comes back, or the kind does
			_ = wait.Sleep(ctx, pass)
			continue
		}
		a.noticed(kind, -1)
		for range events.ResultChan() {
			a.noticed(kind, 0)
		}
		a.noticed(kind, 1)
		events.Stop()
	}
}

// noticed forgets what was known of a kind, since something of it has changed, or how many kinds aren't watched has. Secrets are forgotten each time: what an object
// names mustn't be older than the object.
func (a *attentive) noticed(kind schema.GroupKind, deaf int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deaf += deaf
	for _, changed := range []schema.GroupKind{kind, {Kind: "Secret"}} {
		if k := a.kinds[changed]; k != nil {
			k.forget()
		}
	}
}

// Get implements client.Reader.
func (a *attentive) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return a.ask(into, key.String(), func() error { return a.WithWatch.Get(ctx, key, into, opts...) })
}

// List implements client.Reader.
func (a *attentive) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(opts)
	return a.ask(into, fmt.Sprint(asked.Namespace, " ", asked.LabelSelector), func() error { return a.WithWatch.List(ctx, into, opts...) })
}

// ask puts an answer into an object, that of last time where it still holds.
func (a *attentive) ask(into runtime.Object, question string, ask func() error) error {
	k := a.kinds[a.kindOf(into)]
	if k == nil {
		return ask()
	}
	question = fmt.Sprintf("%T %s", into, question)
	a.mu.Lock()
	answer, known := k.known[question]
	before := k.changes
	a.mu.Unlock()
	if known {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(answer))
		return nil
	}
	if err := ask(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if k.changes == before && a.deaf == 0 {
		k.known[question] = reflect.ValueOf(into).Elem().Interface()
	}
	return nil
}

// Create implements client.Writer.
func (a *attentive) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return a.wrote(o, a.WithWatch.Create(ctx, o, opts...))
}

// Delete implements client.Writer.
func (a *attentive) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return a.wrote(o, a.WithWatch.Delete(ctx, o, opts...))
}

// Status implements client.StatusClient.
func (a *attentive) Status() client.SubResourceWriter {
	return attentiveStatus{a.WithWatch.Status(), a}
}

type attentiveStatus struct {
	client.SubResourceWriter
	a *attentive
}

// Update implements client.SubResourceWriter.
func (s attentiveStatus) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.a.wrote(o, s.SubResourceWriter.Update(ctx, o, opts...))
}

// wrote notices what the operator itself changed, or would have.
func (a *attentive) wrote(o runtime.Object, err error) error {
	if kind := a.kindOf(o); a.kinds[kind] != nil {
		a.noticed(kind, 0)
	}
	return err
}
