package simulator

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// asked is an API server that counts what it is asked for, and tells of changes when the test says so.
type asked struct {
	client.WithWatch
	scheme *runtime.Scheme

	mu sync.Mutex
	n  int
	// fails is what it answers each question, and meanwhile what happens before it does.
	fails     error
	meanwhile func()
	// away reports whether it isn't there to be watched, and watches are those that are open, by what they are of.
	away    bool
	watches map[string]*watch.RaceFreeFakeWatcher
}

func (s *asked) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(o, s.scheme)
}

func (s *asked) answer() error {
	s.mu.Lock()
	s.n++
	meanwhile := s.meanwhile
	s.mu.Unlock()
	if meanwhile != nil {
		meanwhile()
	}
	return s.fails
}

func (s *asked) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	into.SetName(key.Name)
	into.SetResourceVersion("the server's")
	return s.answer()
}

func (s *asked) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.SetResourceVersion("the server's")
	return s.answer()
}

func (*asked) Create(context.Context, client.Object, ...client.CreateOption) error { return nil }

func (*asked) Delete(context.Context, client.Object, ...client.DeleteOption) error { return nil }

func (*asked) Status() client.SubResourceWriter { return askedStatus{} }

type askedStatus struct{ client.SubResourceWriter }

func (askedStatus) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errors.New("the object has been modified")
}

func (s *asked) Watch(ctx context.Context, list client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errors.New("connection refused")
	}
	kind, err := s.GroupVersionKindFor(list)
	if err != nil {
		return nil, err
	}
	w := watch.NewRaceFreeFake()
	s.watches[strings.TrimSuffix(kind.Kind, "List")] = w
	context.AfterFunc(ctx, w.Stop)
	return w, nil
}

// change tells who watches Pods or Secrets that one has changed, which they then know.
func (s *asked) change(kind string) {
	s.mu.Lock()
	s.watches[kind].Modify(&corev1.Pod{}) // nobody looks at what it is
	s.mu.Unlock()
	synctest.Wait()
}

// leave ends all watches and has none begin, until come.
func (s *asked) leave() {
	s.mu.Lock()
	s.away = true
	for _, w := range s.watches {
		w.Stop()
	}
	s.mu.Unlock()
	synctest.Wait()
}

func (s *asked) come() {
	s.mu.Lock()
	s.away = false
	s.mu.Unlock()
	time.Sleep(pass) // by the test's clock
	synctest.Wait()
}

// TestAttentive: who looks every so often asks the API server once for what doesn't change, and is never answered what has changed since.
func TestAttentive(t *testing.T) {
	t.Parallel()
	pods := func(labels client.MatchingLabels) func(c client.Client) error {
		return func(c client.Client) error {
			var all corev1.PodList
			err := c.List(t.Context(), &all, client.InNamespace("test"), labels)
			if err == nil && all.ResourceVersion != "the server's" {
				err = errors.New("it wasn't answered what the server has answered")
			}
			return err
		}
	}
	object := func(kind client.Object, name string) func(c client.Client) error {
		return func(c client.Client) error {
			into := kind.DeepCopyObject().(client.Object)
			err := c.Get(t.Context(), client.ObjectKey{Namespace: "test", Name: name}, into)
			if err == nil && (into.GetName() != name || into.GetResourceVersion() != "the server's") {
				err = errors.New("it wasn't answered what the server has answered")
			}
			return err
		}
	}
	one := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "test"}}
	// ask is asked before and after something happened, and a server is asked so often for that.
	for name, v := range map[string]struct {
		ask     func(c client.Client) error
		happens func(s *asked, c client.Client)
		want    int
	}{
		"nothing happens":              {pods(nil), func(*asked, client.Client) {}, 1},
		"a Pod changes":                {pods(nil), func(s *asked, _ client.Client) { s.change("Pod") }, 2},
		"a Secret changes":             {pods(nil), func(s *asked, _ client.Client) { s.change("Secret") }, 1},
		"a Pod changes, of a Secret":   {object(&corev1.Secret{}, "one"), func(s *asked, _ client.Client) { s.change("Pod") }, 2},
		"nothing happens, of a Secret": {object(&corev1.Secret{}, "one"), func(*asked, client.Client) {}, 1},
		"what isn't watched":           {object(&corev1.Service{}, "one"), func(*asked, client.Client) {}, 2},
		"another is asked for":         {object(&corev1.Pod{}, "one"), func(_ *asked, c client.Client) { _ = object(&corev1.Pod{}, "two")(c) }, 2},
		"others are asked for":         {pods(nil), func(_ *asked, c client.Client) { _ = pods(client.MatchingLabels{"of": "one"})(c) }, 2},
		"it makes a Pod":               {pods(nil), func(_ *asked, c client.Client) { _ = c.Create(t.Context(), one.DeepCopy()) }, 2},
		"it deletes a Pod":             {pods(nil), func(_ *asked, c client.Client) { _ = c.Delete(t.Context(), one.DeepCopy()) }, 2},
		"it loses a race for a Pod":    {pods(nil), func(_ *asked, c client.Client) { _ = c.Status().Update(t.Context(), one.DeepCopy()) }, 2},
		"the server goes":              {pods(nil), func(s *asked, c client.Client) { s.leave(); _ = pods(nil)(c) }, 3},
		"the server comes back":        {pods(nil), func(s *asked, _ client.Client) { s.leave(); s.come() }, 2},
		"the server is back": {pods(nil), func(s *asked, c client.Client) {
			s.leave()
			s.come()
			_ = pods(nil)(c)
		}, 2},
		"a Pod had changed meanwhile": {pods(nil), func(s *asked, c client.Client) {
			s.change("Pod")
			s.meanwhile = func() { s.meanwhile = nil; s.change("Pod") }
			_ = pods(nil)(c)
		}, 3},
		"it had failed": {pods(nil), func(s *asked, c client.Client) {
			s.change("Pod")
			s.fails = errors.New("not now")
			_ = pods(nil)(c)
			s.fails = nil
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &asked{scheme: runtime.NewScheme(), watches: map[string]*watch.RaceFreeFakeWatcher{}}
				if err := corev1.AddToScheme(s.scheme); err != nil {
					t.Fatal(err)
				}
				c := newAttentive(t, s, "test", &corev1.PodList{}, &corev1.SecretList{})
				synctest.Wait() // both are watched
				if err := v.ask(c); err != nil {
					t.Fatal(err)
				}
				v.happens(s, c)
				if err := v.ask(c); err != nil {
					t.Fatal(err)
				}
				if s.n != v.want {
					t.Errorf("the server was asked %d times, not %d", s.n, v.want)
				}
			})
		})
	}
}
