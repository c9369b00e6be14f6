package simulator

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/wait"
)

// attentive is the client of an operator that looks every so often: it asks the API server for what is in a namespace only when something may have changed there
// since it asked last, which the API server tells it, and returns what it was answered then. Who changes what it returned has to write it.
type attentive struct {
	client.WithWatch
	// kinds are those that are watched, of single objects.
	kinds map[string]bool

	mu sync.Mutex
	// deaf is how many kinds aren't watched at the moment: nothing is known for sure then.
	deaf int
	// change counts what changed, and known are answers since the last time, by what was asked for.
	change int
	known  map[string]any
}

// newAttentive watches the kinds of some lists until the test ends. The last of its clean-ups that uses it has to be registered later.
func newAttentive(t testing.TB, c client.WithWatch, namespace string, lists ...client.ObjectList) *attentive {
	t.Helper()
	a := &attentive{WithWatch: c, kinds: map[string]bool{}, deaf: len(lists), known: map[string]any{}}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	for _, list := range lists {
		kind, err := a.kindOf(list)
		if err != nil {
			t.Fatal(err)
		}
		a.kinds[kind] = true
		watching.Go(func() { a.follow(ctx, list, namespace) })
	}
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	return a
}

// kindOf is the kind of an object, or of those in a list.
func (a *attentive) kindOf(o runtime.Object) (string, error) {
	kind, err := a.GroupVersionKindFor(o)
	return strings.TrimSuffix(kind.String(), "List"), err
}

// follow notices each change of a kind.
func (a *attentive) follow(ctx context.Context, list client.ObjectList, namespace string) {
	for ctx.Err() == nil {
		events, err := a.Watch(ctx, list, client.InNamespace(namespace))
		if err != nil { // the API server comes back, or the kind does
			_ = wait.Sleep(ctx, pass)
			continue
		}
		a.noticed(-1)
		for range events.ResultChan() {
			a.noticed(0)
		}
		a.noticed(1)
		events.Stop()
	}
}

// noticed forgets all, since something has changed: maybe how many kinds can't be watched.
func (a *attentive) noticed(deaf int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deaf += deaf
	a.change++
	clear(a.known)
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
	kind, err := a.kindOf(into)
	if err != nil || !a.kinds[kind] {
		return errors.Join(err, ask())
	}
	question = fmt.Sprintf("%T %s", into, question)
	a.mu.Lock()
	answer, known := a.known[question]
	before := a.change
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
	if a.change == before && a.deaf == 0 {
		a.known[question] = reflect.ValueOf(into).Elem().Interface()
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
	if kind, unknown := a.kindOf(o); unknown != nil || a.kinds[kind] {
		a.noticed(0)
	}
	return err
}
