package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/monitor"
	"steward/internal/notify/notifytest"
	"steward/internal/wait"
	"steward/test/harness"
)

// stewardChecker is one server, or several on the store of the first.
type stewardChecker struct {
	s       settings
	servers []*harness.Server
	// stores is how each but the first reaches the store, to be cut.
	stores []*proxy
	box    *notifytest.Server
	// rest is the servers' memory before there were services.
	rest int64
}

func startSteward(o *harness.Outside, s settings, t *targets) checker {
	c := &stewardChecker{s: s, box: notifytest.Start(o, notifytest.Options{})}
	options := harness.WithConfig(fmt.Sprintf("monitor: {interval: %s}\nsmtp: {url: %q, from: watch@example.org, ca_file: %q}\npool: {size: 0}",
		s.interval, c.box.URL(), c.box.CAFile))
	first := harness.New(o, options)
	c.servers = []*harness.Server{first}
	for range s.servers - 1 {
		c.join(o, options)
	}
	contact := map[string]any{"name": "Ann", "email": "ann@example.org"}
	if status, body := first.Call(http.MethodPost, "/v4/managed/contacts", contact, nil); status != http.StatusOK {
		o.Fatal(status, body)
	}
	for _, server := range c.servers {
		c.rest += harness.ResidentBytes(server.PID())
	}
	c.create(o, t)
	return c
}

// join starts another server on the first one's store.
func (c *stewardChecker) join(o *harness.Outside, options harness.Option) {
	first := c.servers[0]
	p := newProxy(o, first.StoreURL())
	s := harness.Prepare(o, options)
	key, err := os.ReadFile(filepath.Join(first.Data, "seal.key"))
	if err == nil {
		err = os.MkdirAll(s.Data, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.Data, "seal.key"), key, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.Data, "admin.token"), []byte(first.Token+"\n"), 0o600)
	}
	if err != nil {
		o.Fatal(err)
	}
	s.Start("--store", p.url)
	c.servers, c.stores = append(c.servers, s), append(c.stores, p)
}

// create makes the services, some at once.
func (c *stewardChecker) create(o *harness.Outside, t *targets) {
	var making sync.WaitGroup
	next := make(chan int)
	failed := make(chan string, 1)
	for range 8 {
		making.Go(func() {
			for i := range next {
				in := map[string]any{"label": fmt.Sprintf("service %d", i), "service_type": "url", "address": t.address(i), "timeout": 5, "region": "local"}
				if status, body, err := c.servers[0].TryCall(http.MethodPost, "/v4/managed/services", in, nil); err != nil || status != http.StatusOK {
					select {
					case failed <- fmt.Sprint(status, body, err):
					default:
					}
				}
			}
		})
	}
	for i := range c.s.services {
		next <- i
	}
	close(next)
	making.Wait()
	select {
	case text := <-failed:
		o.Fatal("create services: ", text)
	default:
	}
}

// processes are the servers as they are now, and the first one's store.
func (c *stewardChecker) processes() (own, store []int) {
	for _, s := range c.servers {
		own = append(own, s.PID())
	}
	var roots []int
	for pid, line := range c.servers[0].Processes() {
		if strings.Contains(line, filepath.Join(c.servers[0].Data, "store")) {
			roots = append(roots, pid)
		}
	}
	return own, harness.Descendants(roots...)
}

func (c *stewardChecker) mails() int { return len(c.box.Mails()) }

// faultEvery is the time from one fault to the next.
const faultEvery = 20 * time.Second

// beyond the lease, so that others take over.
const beyondLease = 6 * time.Second

func (c *stewardChecker) known(ctx context.Context, t *targets) (k known, err error) {
	conn, err := pgx.Connect(ctx, c.servers[0].StoreURL())
	if err != nil {
		return k, err
	}
	defer conn.Close(ctx)
	k.Rest = c.rest
	if k.History, err = history(ctx, conn); err != nil || c.s.broken == 0 {
		return k, err
	}
	decided, err := t.decided()
	if err != nil {
		return k, err
	}
	var told []time.Duration
	for _, m := range c.box.Mails() { // in the order they came; the first about each counts
		i, known := aboutService(m)
		if at, broke := decided[i]; known && broke {
			told = append(told, m.At.Sub(at))
			k.Outage = max(k.Outage, m.At.Sub(t.broke))
			delete(decided, i)
		}
	}
	slices.Sort(told)
	if len(told) > 0 {
		k.Told = told[(len(told)-1)*99/100]
	}
	return k, nil
}

var serviceLabel = regexp.MustCompile(`\bservice ([0-9]+)\b`)

func aboutService(m notifytest.Mail) (i int, known bool) {
	found := serviceLabel.FindStringSubmatch(m.Subject)
	if found == nil {
		return 0, false
	}
	i, err := strconv.Atoi(found[1])
	return i, err == nil
}

// history is what a check takes in the store's files.
func history(ctx context.Context, conn *pgx.Conn) (float64, error) {
	var bytes int64
	const size = "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'check_blocks'::regclass"
	if err := conn.QueryRow(ctx, size).Scan(&bytes); err != nil {
		return 0, err
	}
	rows, err := conn.Query(ctx, "SELECT started, packed FROM check_blocks")
	if err != nil {
		return 0, err
	}
	var started time.Time
	var packed []byte
	checks := 0
	_, err = pgx.ForEachRow(rows, []any{&started, &packed}, func() error {
		return monitor.UnpackSamples(started, packed, func(monitor.Sample) bool { checks++; return true })
	})
	return float64(bytes) / float64(max(checks, 1)), err
}

// suffer does the faults to the servers beside the first in turn, or what is to
// happen once.
func (c *stewardChecker) suffer(ctx context.Context) error {
	switch {
	case c.s.away:
		return c.storeAway(ctx)
	case c.s.restart:
		_ = wait.Sleep(ctx, c.s.duration/4)
		return harness.Attempt(func() {
			fmt.Fprintln(os.Stderr, "  kill -9")
			c.servers[0].Kill()
			began := time.Now()
			c.servers[0].Start()
			fmt.Fprintln(os.Stderr, "  started again in", time.Since(began).Round(time.Millisecond))
			<-ctx.Done()
		})
	}
	for n := 0; len(c.s.faults) > 0; n++ {
		if wait.Sleep(ctx, faultEvery/2) != nil {
			return nil
		}
		i := n % len(c.stores)
		if err := harness.Attempt(func() { c.hit(ctx, c.s.faults[n%len(c.s.faults)], c.servers[i+1], c.stores[i]) }); err != nil {
			return err
		}
		_ = wait.Sleep(ctx, faultEvery/2)
	}
	<-ctx.Done()
	return nil
}

func (c *stewardChecker) storeAway(ctx context.Context) error {
	_ = wait.Sleep(ctx, c.s.duration/4)
	_, store := c.processes()
	if len(store) == 0 {
		return errors.New("no process of the store was found")
	}
	fmt.Fprintln(os.Stderr, "  the store stops:", len(store), "processes")
	for _, pid := range store {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	_ = wait.Sleep(ctx, storeAway)
	for _, pid := range store {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	fmt.Fprintln(os.Stderr, "  the store goes on")
	<-ctx.Done()
	return nil
}

func (c *stewardChecker) hit(ctx context.Context, fault string, s *harness.Server, p *proxy) {
	fmt.Fprintln(os.Stderr, "  fault:", fault)
	switch fault {
	case kill9:
		s.Kill()
		s.Start("--store", p.url)
	case stopped:
		_ = syscall.Kill(s.PID(), syscall.SIGSTOP)
		_ = wait.Sleep(ctx, beyondLease)
		_ = syscall.Kill(s.PID(), syscall.SIGCONT)
	case cutOff:
		p.cut(true)
		_ = wait.Sleep(ctx, beyondLease)
		p.cut(false)
	}
}

// proxy leads to the first server's store, which listens on a socket, until it is cut.
type proxy struct {
	url string

	mu    sync.Mutex
	off   bool
	conns map[net.Conn]bool
}

func newProxy(o *harness.Outside, url string) *proxy {
	l, err := listen("127.0.0.1:0")
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { _ = l.Close() })
	socket, rest, _ := strings.Cut(strings.TrimPrefix(url, "host="), " ")
	p := &proxy{conns: map[net.Conn]bool{}}
	p.url = fmt.Sprintf("host=127.0.0.1 port=%d sslmode=disable %s", l.Addr().(*net.TCPAddr).Port, rest)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.lead(conn, filepath.Join(socket, ".s.PGSQL.5432"))
		}
	}()
	return p
}

func (p *proxy) lead(conn net.Conn, socket string) {
	defer conn.Close()
	store, err := (&net.Dialer{}).DialContext(context.Background(), "unix", socket)
	if err != nil || !p.keep(conn, store) {
		return
	}
	defer store.Close()
	go func() { _, _ = io.Copy(store, conn); _ = store.Close() }()
	_, _ = io.Copy(conn, store)
}

// keep remembers both ends, unless the way is cut.
func (p *proxy) keep(ends ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off {
		for _, end := range ends {
			_ = end.Close()
		}
		return false
	}
	for _, end := range ends {
		p.conns[end] = true
	}
	return true
}

func (p *proxy) cut(off bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = off
	for conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
}

func listen(address string) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
}

// freeAddress is one where nothing listens.
func freeAddress(o *harness.Outside) string {
	l, err := listen("127.0.0.1:0")
	if err != nil {
		o.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
