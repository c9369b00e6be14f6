package api_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSlowClients: a client that dribbles its request is cut off, and doesn't
// keep others waiting.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := b.api.Server()
	server.Handler = b.handler
	if server.ReadHeaderTimeout == 0 || server.ReadTimeout == 0 || server.WriteTimeout == 0 || server.IdleTimeout == 0 || server.MaxHeaderBytes == 0 {
		t.Fatalf("a bound is missing: %+v", server)
	}
	server.ReadHeaderTimeout, server.ReadTimeout = 300*time.Millisecond, 300*time.Millisecond // the same, faster
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	address := l.Addr().String()

	for name, request := range map[string]string{
		"header": "GET /v4/regions HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"body":   "POST /v4/profile/tokens HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b.full + "\r\nContent-Length: 1000\r\n\r\n{\"label\":",
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.Get("http://" + address + "/v4/regions")
		if err != nil {
			t.Fatalf("another client beside a slow %s: %v", name, err)
		}
		resp.Body.Close()
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil {
			t.Errorf("a slow %s wasn't cut off: %v", name, err)
		}
		if strings.Contains(string(answer), " 200 ") {
			t.Errorf("a slow %s was answered: %s", name, answer)
		}
	}

	big, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/v4/regions", nil)
	if err != nil {
		t.Fatal(err)
	}
	big.Header.Set("X-Big", strings.Repeat("x", 64<<10))
	resp, err := http.DefaultClient.Do(big)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a huge header: %s", fmt.Sprint(resp.StatusCode))
	}
}
