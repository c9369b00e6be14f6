package kubernetes

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// isUndefined reports whether an API server doesn't know a kind, as without the operator's definitions, or while they are replaced.
func isUndefined(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// isGone reports whether an error says that an object isn't there. That its kind isn't known says nothing of it: databases, and what the API
// server keeps of them, outlive a definition that isn't served for a while.
func isGone(err error) bool { return apierrors.IsNotFound(err) && !isUndefined(err) }

// unlessGone is err, but for one that says that an object isn't there.
func unlessGone(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}

// explained says what is behind an error that tells only what was asked for.
func explained(err error) error {
	if isUndefined(err) {
		return fmt.Errorf("its kind isn't defined, as without the operator or while it is replaced: %w", err)
	}
	return err
}

// isUndeclared reports whether a definition lacks a field that was written. An API server says so as a fault of its own.
func isUndeclared(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && strings.Contains(status.Status().Message, "field not declared in schema")
}
