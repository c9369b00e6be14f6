package testdir

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

func TestPortsAreOneTestsOnly(t *testing.T) {
	const n = 2*portBlock + 1
	first := Ports(t, n)
	if _, err := claim(t.Context(), first+2*portBlock, 1); err == nil {
		t.Error("a block of a test's ports was claimed again")
	}
	l, err := net.Listen("tcp", ":"+strconv.Itoa(first+n-1))
	if err != nil {
		t.Fatalf("the last port isn't free: %v", err)
	}
	Free(l)
	t.Run("given back", func(t *testing.T) { first = Ports(t, 1) })
	release, err := claim(t.Context(), first, 1)
	if err != nil {
		t.Fatalf("ports of a test that is over: %v", err)
	}
	release()
}

func TestPortsInUseAreLeftAlone(t *testing.T) {
	first := Ports(t, 1)
	l, err := net.Listen("tcp", "127.0.77.1:"+strconv.Itoa(first+portBlock-1))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := claim(t.Context(), first, 1); err == nil {
		t.Error("claimed, though something listens there")
	}
}

// TestFree: a port is free although processes are being started all the while.
// It is one of the test's own: the kernel gives others away as soon as they are free.
func TestFree(t *testing.T) {
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(Ports(t, 1)))
	ctx, stop := context.WithCancel(t.Context())
	var starters sync.WaitGroup
	defer starters.Wait()
	defer stop()
	for range 4 {
		starters.Go(func() {
			for ctx.Err() == nil {
				_ = exec.CommandContext(ctx, "true").Run()
			}
		})
	}
	for range 300 {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if err := Free(l); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRefused: what it names refuses, and nobody can begin to listen there.
func TestRefused(t *testing.T) {
	at := Refused(t)
	if _, err := net.Dial("tcp", at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connect: %v", err)
	}
	if l, err := net.Listen("tcp", at); err == nil {
		l.Close()
		t.Error("somebody else has the port")
	}
}
