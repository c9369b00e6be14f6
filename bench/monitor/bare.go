package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"steward/test/harness"
)

// What the bare client is told by its environment.
const (
	portVariable     = "BENCH_MONITOR_PORT"
	servicesVariable = "BENCH_MONITOR_SERVICES"
	intervalVariable = "BENCH_MONITOR_INTERVAL"
)

// bareTick releases the bare client's checks, as steward's are.
const bareTick = 100 * time.Millisecond

// checkBare is the floor: a GET on a new connection for each service in its turn,
// and nothing else.
func checkBare() error {
	var t targets
	var interval time.Duration
	_, errPort := fmt.Sscan(os.Getenv(portVariable), &t.port)
	_, errServices := fmt.Sscan(os.Getenv(servicesVariable), &t.services)
	interval, errInterval := time.ParseDuration(os.Getenv(intervalVariable))
	if err := errors.Join(errPort, errServices, errInterval); err != nil {
		return err
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, Proxy: nil, DialContext: (&net.Dialer{}).DialContext,
	}}
	turns := int(interval / bareTick)
	ticker := time.NewTicker(bareTick)
	for turn := 0; ; turn = (turn + 1) % turns {
		<-ticker.C
		for i := turn; i < t.services; i += turns {
			go func() { _ = look(client, t.address(i)) }()
		}
	}
}

func look(client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// bareChecker is the process of the bare client.
type bareChecker struct{ pid int }

func startBare(o *harness.Outside, s settings, t *targets) checker {
	cmd := child(o, bare, []string{
		fmt.Sprintf("%s=%d", portVariable, t.port), fmt.Sprintf("%s=%d", servicesVariable, s.services), fmt.Sprintf("%s=%s", intervalVariable, s.interval),
	})
	if err := cmd.Start(); err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return bareChecker{cmd.Process.Pid}
}

func (c bareChecker) processes() (own, store []int)  { return []int{c.pid}, nil }
func (bareChecker) mails() int                       { return 0 }
func (bareChecker) suffer(ctx context.Context) error { <-ctx.Done(); return nil }

func (bareChecker) known(context.Context, *targets) (known, error) { return known{}, nil }

func start(o *harness.Outside, s settings, contender string, t *targets) checker {
	switch contender {
	case bare:
		return startBare(o, s, t)
	case blackbox:
		return startBlackbox(o, s, t)
	}
	return startSteward(o, s, t)
}
