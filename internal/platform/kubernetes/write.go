package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"steward/internal/failpoint"
)

// wroteAnnotation is on each object a digest of what we wrote into it last: what it has else is somebody else's.
const wroteAnnotation = "steward/wrote"

// write applies an object: all that is ours of it, and nothing that is somebody else's. One that has it all already is left: a start looks
// at all objects, and to look costs an API server less.
func write(ctx context.Context, to client.Client, o client.Object, options ...client.ApplyOption) error {
	_, err := writeOver(ctx, to, o, nil, options...)
	return err
}

// writeOver is write of an object that was read a moment ago, or that is to be looked for when there is nil. It reports whether it had to.
func writeOver(ctx context.Context, to client.Client, o, there client.Object, options ...client.ApplyOption) (wrote bool, err error) {
	content, err := contentOf(o)
	if err != nil {
		return false, err
	}
	if there != nil && holds(there, content) || there == nil && written(ctx, to, content) {
		return false, nil
	}
	mine := &unstructured.Unstructured{Object: content}
	err = to.Apply(ctx, client.ApplyConfigurationFromUnstructured(mine), append(options, client.FieldOwner(manager))...)
	if apierrors.IsConflict(err) {
		err = takeOver(ctx, to, mine, err)
	}
	if err == nil {
		failpoint.Here("kubernetes: after writing " + o.GetName())
		return true, nil
	}
	err = fmt.Errorf("write %s %s: %w", o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), err)
	if isPermanent(err) {
		return false, &permanentError{err}
	}
	return false, err
}

// takeOverAnnotation on an object has steward take back, once, what somebody else has changed of its fields.
const (
	takeOverAnnotation = "steward/take-over"
	takeOverAsked      = "yes"
)

// takeOver writes over somebody else's fields, if that was asked for: by whoever may change the object, of that one object, and for once. Else it says how to ask.
func takeOver(ctx context.Context, to client.Client, mine *unstructured.Unstructured, conflict error) error {
	there := &unstructured.Unstructured{}
	there.SetGroupVersionKind(mine.GroupVersionKind())
	if err := to.Get(ctx, client.ObjectKeyFromObject(mine), there); err != nil {
		return fmt.Errorf("%w; and it can't be read: %w", conflict, err)
	}
	if there.GetAnnotations()[takeOverAnnotation] != takeOverAsked {
		kind := strings.TrimSuffix(strings.ToLower(mine.GetKind())+"."+mine.GroupVersionKind().Group, ".")
		return fmt.Errorf("%w; to have steward take it over: kubectl annotate %s -n %s %s %s=%s", conflict, kind, mine.GetNamespace(), mine.GetName(), takeOverAnnotation, takeOverAsked)
	}
	annotations := mine.GetAnnotations()
	annotations[takeOverAnnotation] = "" // in the same moment: it isn't asked for again
	mine.SetAnnotations(annotations)
	if err := to.Apply(ctx, client.ApplyConfigurationFromUnstructured(mine), client.FieldOwner(manager), client.ForceOwnership); err != nil {
		return fmt.Errorf("take over what somebody else has changed: %w", err)
	}
	log.FromContext(ctx).Info("fields that somebody else had changed were taken over, as was asked for", "object", mine.GetName(), "conflict", conflict.Error())
	return nil
}

// holds is written for an object that was read already. Which kind it is of its type says.
func holds(o client.Object, content map[string]any) bool {
	there, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil || o.GetDeletionTimestamp() != nil {
		return false
	}
	there["apiVersion"], there["kind"] = content["apiVersion"], content["kind"]
	return within(content, there)
}

// contentOf is what is ours of an object, with its digest.
func contentOf(o client.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", o.GetName(), err)
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(content, "metadata", "annotations", wroteAnnotation)
	text, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", o.GetName(), err)
	}
	sum := sha256.Sum256(text)
	if err := unstructured.SetNestedField(content, hex.EncodeToString(sum[:16]), "metadata", "annotations", wroteAnnotation); err != nil {
		return nil, fmt.Errorf("write %s: %w", o.GetName(), err)
	}
	return content, nil
}

// written reports whether an object is as it would be after content was written: we wrote just that last, and nobody has changed any of it since.
// Where that can't be read, to write it tells why.
func written(ctx context.Context, to client.Client, content map[string]any) bool {
	wanted, there := &unstructured.Unstructured{Object: content}, &unstructured.Unstructured{}
	there.SetGroupVersionKind(wanted.GroupVersionKind())
	err := to.Get(ctx, client.ObjectKeyFromObject(wanted), there)
	return err == nil && there.GetDeletionTimestamp() == nil && within(content, there.Object)
}

// within reports whether all of a is in b: of maps each field, of lists each element in its place.
func within(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, is := b.(map[string]any)
		if !is {
			return false
		}
		for name, value := range a {
			other, there := b[name]
			if !there || !within(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, is := b.([]any)
		if !is || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !within(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}
