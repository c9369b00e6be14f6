package probe

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkCheck compares a check with a bare net/http client on new connections,
// in the same run, by the CPU time that each takes; the server is another process.
// The aim is a ratio of at most 1.3.
//
//	go test -run '^$' -bench Check -benchtime 20000x ./internal/probe
func BenchmarkCheck(b *testing.B) {
	plain, secure, secure2, roots := benchServers(b)
	p := New(Options{Networks: local(), Roots: roots, UserAgent: "steward/bench"})
	for name, url := range map[string]string{"http": plain, "https": secure, "http2": secure2} {
		a := address(b, url)
		b.Run(name, func(b *testing.B) {
			transport := &http.Transport{
				DisableKeepAlives: true, ForceAttemptHTTP2: name == "http2", TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			}
			client := &http.Client{Transport: transport, Timeout: patience}
			bare := cpuOf(b, func() error {
				response, err := client.Get(url)
				if err != nil {
					return err
				}
				defer response.Body.Close()
				_, err = io.Copy(io.Discard, response.Body)
				return err
			})
			check := cpuOf(b, func() error {
				if r := p.Check(b.Context(), Target{Address: a, Timeout: patience, Body: "well", Region: "local"}); !r.Good() {
					return fmt.Errorf("%+v", r)
				}
				return nil
			})
			perThousand := 1000 / float64(b.N)
			b.ReportMetric(bare.Seconds()*perThousand, "bare-cpu-s/1000")
			b.ReportMetric(check.Seconds()*perThousand, "check-cpu-s/1000")
			b.ReportMetric(check.Seconds()/bare.Seconds(), "check/bare")
		})
	}
}

// cpuOf is this process's CPU time for b.N calls, a few at a time.
func cpuOf(b *testing.B, call func() error) time.Duration {
	b.Helper()
	before := used(b)
	var group sync.WaitGroup
	const atOnce = 8
	for i := range atOnce {
		group.Go(func() {
			for range (b.N + i) / atOnce {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return used(b) - before
}

func used(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// asServer makes this test binary a server, for benchServers.
const asServer = "STEWARD_PROBE_BENCH_SERVER"

// TestMain is the server's process, when it is asked to be.
func TestMain(m *testing.M) {
	if os.Getenv(asServer) == "" {
		os.Exit(m.Run())
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "<html><body>"+strings.Repeat("all is well ", 100)+"</body></html>")
	})
	secure2 := httptest.NewUnstartedServer(handler)
	secure2.EnableHTTP2 = true
	secure2.StartTLS()
	fmt.Println(httptest.NewServer(handler).URL, httptest.NewTLSServer(handler).URL, secure2.URL)
	pem.Encode(os.Stdout, &pem.Block{Type: "CERTIFICATE", Bytes: secure2.Certificate().Raw})
	os.Stdout.Close()
	io.Copy(io.Discard, os.Stdin) // until the benchmark ends
}

func benchServers(b *testing.B) (plain, secure, secure2 string, roots *x509.CertPool) {
	b.Helper()
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), asServer+"=1")
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stdin.Close(); server.Wait() })
	said := bufio.NewReader(stdout)
	if _, err := fmt.Fscanln(said, &plain, &secure, &secure2); err != nil {
		b.Fatal(err)
	}
	certificate, err := io.ReadAll(said)
	if err != nil {
		b.Fatal(err)
	}
	roots = x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certificate) {
		b.Fatalf("the server said %q", certificate)
	}
	return plain, secure, secure2, roots
}
