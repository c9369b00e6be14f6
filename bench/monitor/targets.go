package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/monitor"
	"steward/internal/wait"
	"steward/test/harness"
)

// roleVariable has a process of this program play a part: the targets and the bare
// client are processes of their own, so that what they cost is told apart.
const roleVariable = "BENCH_MONITOR_ROLE"

func play(role string) error {
	switch role {
	case "targets":
		return serveTargets(os.Stdin, os.Stdout)
	case bare:
		return checkBare()
	}
	return fmt.Errorf("there is no role %q", role)
}

// targets are the services: one web server on many addresses.
type targets struct {
	port, services, broken, hanging int
	// broke is when some broke.
	broke time.Time
}

// address of a service. Each has a host of its own, so that its outage is its own.
func (t *targets) address(i int) string {
	return fmt.Sprintf("http://127.%d.%d.%d:%d/%d", 100+i/62500, i/250%250, i%250+1, t.port, i)
}

func startTargets(o *harness.Outside, s settings) *targets {
	cmd := child(o, "targets", nil)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		o.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var port int
	if _, err := fmt.Fscan(stdout, &port); err != nil {
		o.Fatal("targets:", err)
	}
	t := &targets{port: port, services: s.services, broken: s.broken, hanging: s.hanging}
	if err := t.ask(fmt.Sprintf("hang?from=%d", s.services-s.hanging), nil); err != nil {
		o.Fatal(err)
	}
	return t
}

func child(o *harness.Outside, role string, env []string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		o.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), self)
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

// found is how services were checked.
type found struct {
	Checks int
	// Doubled checks came less than half an interval after the one before.
	Doubled int
	// Longest is the longest time between two checks of a service; Jitter how far
	// 99 % of these times are at most from the interval.
	Longest, Jitter time.Duration
	// Never is how many were not checked at all.
	Never int
}

func (t *targets) ask(path string, out any) error {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/control/%s", t.port, path), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	return json.NewDecoder(response.Body).Decode(out)
}

func (t *targets) reset() error { return t.ask("reset", nil) }

func (t *targets) breakSome(n int) error {
	if n > 0 {
		t.broke = time.Now()
	}
	return t.ask(fmt.Sprintf("break?n=%d", n), nil)
}

func (t *targets) seen() (n int, _ error) { err := t.ask("seen", &n); return n, err }

// decided are the looks at those that broke by which the third failed, which makes
// an outage.
func (t *targets) decided() (at map[int]time.Time, err error) {
	err = t.ask("decided?broken="+strconv.Itoa(t.broken), &at)
	return at, err
}

func (t *targets) report(interval time.Duration) (f found, err error) {
	err = t.ask(fmt.Sprintf("report?services=%d&broken=%d&hanging=%d&interval=%s", t.services, t.broken, t.hanging, interval), &f)
	return f, err
}

// awaitAll waits until all services have been checked.
func (t *targets) awaitAll(ctx context.Context, s settings) error {
	for deadline := time.Now().Add(3*s.interval + 2*time.Minute); ; {
		n, err := t.seen()
		if err != nil || n >= s.services {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("only %d of %d services have been checked", n, s.services)
		}
		if wait.Sleep(ctx, 200*time.Millisecond) != nil {
			return ctx.Err()
		}
	}
}

// serveTargets answers until the input ends.
func serveTargets(in io.Reader, out io.Writer) error {
	l, err := listen("0.0.0.0:0") // all loopback addresses are wanted; who comes from elsewhere reaches numbers only
	if err != nil {
		return err
	}
	r := &record{looks: map[int][]time.Time{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/", r.look)
	mux.HandleFunc("/control/reset", r.reset)
	mux.HandleFunc("/control/seen", r.seen)
	mux.HandleFunc("/control/break", func(_ http.ResponseWriter, q *http.Request) {
		n, _ := strconv.Atoi(q.FormValue("n"))
		r.broken.Store(int64(n))
		if n > 0 {
			r.mu.Lock()
			r.broke = time.Now()
			r.mu.Unlock()
		}
	})
	mux.HandleFunc("/control/hang", func(_ http.ResponseWriter, q *http.Request) {
		n, _ := strconv.Atoi(q.FormValue("from"))
		r.hanging.Store(int64(n))
	})
	mux.HandleFunc("/control/report", r.report)
	mux.HandleFunc("/control/decided", r.decided)
	fmt.Fprintln(out, l.Addr().(*net.TCPAddr).Port)
	go func() { _, _ = io.Copy(io.Discard, in) }()
	return (&http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}).Serve(l)
}

// record is when services were looked at.
type record struct {
	// broken is the first that isn't, hanging the first that hangs.
	broken, hanging atomic.Int64

	mu    sync.Mutex
	looks map[int][]time.Time
	// broke is when some broke.
	broke time.Time
}

func (r *record) look(w http.ResponseWriter, q *http.Request) {
	now := time.Now()
	i, err := strconv.Atoi(strings.TrimPrefix(q.URL.Path, "/"))
	if err != nil {
		http.NotFound(w, q)
		return
	}
	r.mu.Lock()
	r.looks[i] = append(r.looks[i], now)
	r.mu.Unlock()
	if int64(i) >= r.hanging.Load() {
		<-q.Context().Done()
		return
	}
	if int64(i) < r.broken.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprintln(w, "welcome")
}

func (r *record) reset(http.ResponseWriter, *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, list := range r.looks { // the last look before is where the first gap begins
		r.looks[i] = slices.Clone(list[max(len(list)-1, 0):])
	}
}

func (r *record) seen(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = json.NewEncoder(w).Encode(len(r.looks))
}

func (r *record) report(w http.ResponseWriter, q *http.Request) {
	services, _ := strconv.Atoi(q.FormValue("services"))
	broken, _ := strconv.Atoi(q.FormValue("broken"))
	hanging, _ := strconv.Atoi(q.FormValue("hanging"))
	interval, _ := time.ParseDuration(q.FormValue("interval"))
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = json.NewEncoder(w).Encode(sum(r.looks, services, interval, time.Now(), broken, hanging))
}

func (r *record) decided(w http.ResponseWriter, q *http.Request) {
	broken, _ := strconv.Atoi(q.FormValue("broken"))
	failures := monitor.DefaultRules().Failures
	r.mu.Lock()
	defer r.mu.Unlock()
	at := map[int]time.Time{}
	for i := range broken {
		failed := slices.DeleteFunc(slices.Clone(r.looks[i]), func(look time.Time) bool { return look.Before(r.broke) })
		if len(failed) >= failures {
			at[i] = failed[failures-1]
		}
	}
	_ = json.NewEncoder(w).Encode(at)
}

// sum leaves those that broke out of the doubled and of the jitter: they are looked
// at again to be sure. Of those that hang it tells only that they were looked at:
// one whose second look hangs misses its turn meanwhile.
func sum(looks map[int][]time.Time, services int, interval time.Duration, end time.Time, broken, hanging int) (f found) {
	var off []time.Duration
	for i := range services {
		times := looks[i]
		if len(times) == 0 {
			f.Never++
			continue
		}
		f.Checks += len(times) - 1
		if i >= services-hanging {
			continue
		}
		for n := 1; n < len(times); n++ {
			gap := times[n].Sub(times[n-1])
			f.Longest = max(f.Longest, gap)
			if i < broken {
				continue
			}
			if gap < interval/2 {
				f.Doubled++
			}
			off = append(off, time.Duration(math.Abs(float64(gap-interval))))
		}
		f.Longest = max(f.Longest, end.Sub(times[len(times)-1]))
	}
	slices.Sort(off)
	if len(off) > 0 {
		f.Jitter = off[len(off)*99/100]
	}
	return f
}
