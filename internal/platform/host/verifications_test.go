package host

import (
	"context"
	"testing"
)

// TestVerificationsGiveWay: a recovery uses a verification's folder, so that one ends before the other begins, and none begins meanwhile.
func TestVerificationsGiveWay(t *testing.T) {
	t.Parallel()
	var v verifications
	verifying, verified, err := v.begin(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool, 1)
	go func() {
		<-verifying.Done()
		ended <- true
		verified()
	}()
	_, recovered, err := v.replace(t.Context(), 7)
	if err != nil || len(ended) != 1 {
		t.Fatalf("the verification goes on: %v", err)
	}
	if _, _, err := v.begin(t.Context(), 7); err == nil {
		t.Error("a verification begins beside a recovery")
	}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := v.replace(impatient, 7); err == nil {
		t.Error("two recoveries at once")
	}
	recovered()
	if _, done, err := v.begin(t.Context(), 7); err != nil {
		t.Errorf("nothing is verified afterwards: %v", err)
	} else {
		done()
	}
}
