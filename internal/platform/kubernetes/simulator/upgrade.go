package simulator

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/pki"
	"steward/internal/platform/kubernetes/cnpg"
)

// versionAnnotation is on each Pod the version of the operator that made it.
const versionAnnotation = "cnpg.io/operatorVersion"

// Upgrade has the operator be another version, which makes each Pod anew: the operator's program is in it. That begins some passes
// late, while the status says that all is well.
func (op *Operator) Upgrade(version string) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.version = version
}

// Skew has the clocks of the operator and of Pods' machines be ahead by so much, or behind. The servers' own stay right: they are this machine's.
func (op *Operator) Skew(ahead time.Duration) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.skew = ahead
}

// now is what the operator takes for it.
func (op *Operator) now() time.Time { return time.Now().Add(op.skew) }

// Webhook plays the operator's, which an API server asks before it takes a cluster's object.
type Webhook struct {
	mu   sync.Mutex
	away bool
	why  string
}

// StartWebhook has the API server ask about all objects of clusters in a namespace, until the test ends.
func StartWebhook(t testing.TB, c client.Client, namespace string) *Webhook {
	t.Helper()
	ca, err := pki.NewCA("webhook", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := ca.Issue(nil, []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Webhook{}
	server := &http.Server{Handler: w, TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}}, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.ServeTLS(listener, "", "") // until it is closed
	}()
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: "operator-of-" + namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:              "vcluster.cnpg.io",
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: new("https://" + listener.Addr().String() + "/"), CABundle: ca.CertPEM()},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{cnpg.GroupVersion.Group}, APIVersions: []string{cnpg.GroupVersion.Version}, Resources: []string{"clusters"}},
			}},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(5)),
		}},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(configuration)
	if err != nil {
		t.Fatal(err)
	}
	made := &unstructured.Unstructured{Object: content}
	if err := c.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Delete(context.Background(), made) // else it is asked about a namespace that nobody uses any more
		_ = server.Close()
		<-served
	})
	return w
}

// Away has it not answer, as while no operator runs.
func (w *Webhook) Away(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = away
}

// Refuse has it refuse all, and say why; "" ends that.
func (w *Webhook) Refuse(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.why = why
}

func (w *Webhook) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	away, why := w.away, w.why
	w.mu.Unlock()
	var review admissionv1.AdmissionReview
	if away || json.NewDecoder(r.Body).Decode(&review) != nil || review.Request == nil {
		panic(http.ErrAbortHandler)
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: why == ""}
	if why != "" {
		review.Response.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: why,
		}
	}
	to.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(to).Encode(review) // who asks no longer listens
}

// Redefine changes the definition of a kind, as another version of the operator does: change gets what its one version says. It returns what puts it back,
// which the test's end does otherwise.
func Redefine(t testing.TB, c client.Client, name string, change func(version map[string]any)) (back func()) {
	t.Helper()
	edit := func(ctx context.Context, change func(version map[string]any)) error {
		d := &unstructured.Unstructured{}
		d.SetAPIVersion("apiextensions.k8s.io/v1")
		d.SetKind("CustomResourceDefinition")
		if err := c.Get(ctx, client.ObjectKey{Name: name}, d); err != nil {
			return err
		}
		versions, _, err := unstructured.NestedSlice(d.Object, "spec", "versions")
		if err != nil || len(versions) != 1 {
			return fmt.Errorf("%d versions: %w", len(versions), err)
		}
		change(versions[0].(map[string]any))
		if err := unstructured.SetNestedSlice(d.Object, versions, "spec", "versions"); err != nil {
			return err
		}
		return c.Update(ctx, d)
	}
	before := map[string]any{}
	if err := edit(t.Context(), func(version map[string]any) {
		before = runtime.DeepCopyJSON(version)
		change(version)
	}); err != nil {
		t.Fatalf("redefine %s: %v", name, err)
	}
	back = sync.OnceFunc(func() {
		if err := edit(context.Background(), func(version map[string]any) {
			clear(version)
			maps.Copy(version, before)
		}); err != nil {
			t.Errorf("put the definition %s back: %v", name, err)
		}
	})
	t.Cleanup(back)
	return back
}
