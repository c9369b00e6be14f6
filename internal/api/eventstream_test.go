package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/api"
	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/operation"
	"steward/internal/store"
)

// follower reads a stream of events.
type follower struct {
	t      testing.TB
	stop   context.CancelFunc
	events chan string
	// last is the id of the last event; it may be read when events is closed.
	last string
}

// follow runs the hub until the test's end, and serves the API.
func (b *bench) serveStream() *httptest.Server {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); b.api.Control.Events.Hub.Run(ctx) }()
	server := httptest.NewServer(b.api)
	b.t.Cleanup(func() { b.api.Control.Events.Hub.Close(); server.Close(); cancel(); <-done })
	return server
}

// follow opens a stream; it has begun when follow returns.
func follow(t testing.TB, url, token, after string) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{t: t, stop: cancel, events: make(chan string, 1000)}
	var lines *bufio.Reader
	for deadline := time.Now().Add(30 * time.Second); ; { // the hub may not run yet: the stream ends at once then
		r, err := http.NewRequestWithContext(ctx, "GET", url+"/v4/account/events/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		if after != "" {
			r.Header.Set("Last-Event-ID", after)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%d %v", answer.StatusCode, answer.Header)
		}
		lines = bufio.NewReader(answer.Body)
		if first, err := lines.ReadString('\n'); err == nil && first == "retry: 1000\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing to follow")
		}
	}
	began := make(chan struct{})
	go f.read(lines, began)
	<-began
	return f
}

func (f *follower) read(lines *bufio.Reader, began chan struct{}) {
	defer close(f.events)
	first := true
	for {
		line, err := lines.ReadString('\n')
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			f.last = strings.TrimSpace(id)
		}
		if first && line == "\n" || err != nil && first {
			first = false
			close(began)
		}
		if err != nil {
			return
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var e struct {
				ID      int64
				Action  string
				Percent int `json:"percent_complete"`
			}
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				f.t.Errorf("%s: %v", data, err)
			}
			f.events <- fmt.Sprint(e.Action, " ", e.Percent)
		}
	}
}

// next are so many events.
func (f *follower) next(n int) []string {
	f.t.Helper()
	var all []string
	for range n {
		select {
		case e, ok := <-f.events:
			if !ok {
				f.t.Fatalf("the stream ended after %v", all)
			}
			all = append(all, e)
		case <-time.After(30 * time.Second):
			f.t.Fatalf("only %v came", all)
		}
	}
	return all
}

// close ends reading and returns where it was.
func (f *follower) close() string {
	f.t.Helper()
	f.stop()
	return f.ended()
}

// ended waits for the stream's end; nothing more may have come.
func (f *follower) ended() string {
	f.t.Helper()
	select {
	case e, open := <-f.events:
		if open {
			f.t.Errorf("%s came, too", e)
		}
	case <-time.After(30 * time.Second):
		f.t.Fatal("the stream goes on")
	}
	return f.last
}

// begins records an event in a transaction that ends when end is called.
func (b *bench) begins(cluster cluster.ID, action operation.Action) (end func()) {
	b.t.Helper()
	begun, finish, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- b.store.InTx(context.WithoutCancel(b.t.Context()), func(tx *store.Tx) error {
			_, err := tx.CreateOperation(b.t.Context(), operation.Operation{
				Account: b.account, Cluster: cluster, Engine: "postgresql", Action: action, Status: operation.Notification,
			})
			close(begun)
			<-finish
			return err
		})
	}()
	<-begun
	return func() {
		b.t.Helper()
		close(finish)
		if err := <-done; err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestWhoIsToldOfAChangeReadsIt, whichever process changed it: what is remembered of users' rights is older.
func TestWhoIsToldOfAChangeReadsIt(t *testing.T) {
	t.Parallel()
	now := time.Now() // what is remembered doesn't age
	b := newBench(t, func(o *api.Options) { o.Now = func() time.Time { return now } })
	f := follow(t, b.serveStream().URL, b.restricted, "")
	admin, err := b.api.Control.Auth.Authenticate(t.Context(), b.full)
	if err != nil {
		t.Fatal(err)
	}
	command := control.New(control.Deps{Store: b.store, OnlyServer: true})
	for _, may := range []bool{true, false} {
		b.send("GET", "/v4/profile/grants", b.restricted, "")
		if _, err := command.Users.SetGrants(t.Context(), admin, "limited", control.GrantsChange{AddDatabases: &may}, nil); err != nil {
			t.Fatal(err)
		}
		if got := f.next(1); !slices.Equal(got, []string{"user_update 100"}) {
			t.Errorf("%v", got)
		}
		if r := b.send("GET", "/v4/profile/grants", b.restricted, ""); !strings.Contains(string(r.body), fmt.Sprintf(`"add_databases":%t`, may)) {
			t.Errorf("it was told that add_databases is %t, and reads %s", may, r.body)
		}
	}
}

func TestEventStream(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	url := b.serveStream().URL
	id := cluster.ID(b.create())
	f := follow(t, url, b.full, "")
	// Transactions end in another order than they begin.
	early := b.begins(id, "early")
	b.begins(id, "late")()
	if got := f.next(1); !slices.Equal(got, []string{"late 100"}) {
		t.Errorf("%v", got)
	}
	early()
	if got := f.next(1); !slices.Equal(got, []string{"early 100"}) {
		t.Errorf("%v", got)
	}
	// An event that changes comes again; marks don't count.
	var o operation.Operation
	err := b.store.InTx(t.Context(), func(tx *store.Tx) (err error) {
		o, err = tx.CreateOperation(t.Context(), operation.Operation{Account: b.account, Cluster: id, Engine: "postgresql", Action: "works", Status: operation.Scheduled})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.next(1)
	if err := b.store.ProgressOperation(t.Context(), o.ID, 40, "", time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := f.next(1); !slices.Equal(got, []string{"works 40"}) {
		t.Errorf("%v", got)
	}
	if r := b.send("POST", fmt.Sprintf("/v4/account/events/%d/seen", o.ID), b.full, ""); r.StatusCode != 200 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	// Who comes again is told what was missed, also what had begun before.
	begun := b.begins(id, "begun before")
	last := f.close()
	b.begins(id, "missed")()
	begun()
	f = follow(t, url, b.full, last)
	got := f.next(2)
	slices.Sort(got)
	if !slices.Equal(got, []string{"begun before 100", "missed 100"}) {
		t.Errorf("%v", got)
	}
	b.begins(id, "now")()
	if got := f.next(1); !slices.Equal(got, []string{"now 100"}) {
		t.Errorf("%v", got)
	}
	for _, wrong := range []string{"x", "5", "1:2:3", "9:1:"} {
		if r := b.send("GET", "/v4/account/events/stream", b.full, "", "Last-Event-ID", wrong); r.StatusCode != 400 || !strings.Contains(r.body, `"field":"Last-Event-ID"`) {
			t.Errorf("%s: %d %s", wrong, r.StatusCode, r.body)
		}
	}
	b.api.Control.Events.Hub.Close() // the server stops
	f.ended()
}

// TestEventStreamIsOnesOwn: a stream has what the list has, of the account and by grants, and ends with its token.
func TestEventStreamIsOnesOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	url := b.serveStream().URL
	stranger := b.stranger()
	one, other := cluster.ID(b.create()), cluster.ID(0)
	r := b.send("POST", "/v4/databases/postgresql/instances", b.full, strings.Replace(goodCreate, "shop", "other", 1))
	var made struct{ ID int64 }
	b.decode(r, &made)
	other = cluster.ID(made.ID)
	b.grant(int64(one), "read_only")
	owner, limited, foreign := follow(t, url, b.full, ""), follow(t, url, b.restricted, ""), follow(t, url, stranger, "")
	b.begins(other, "of other")()
	b.begins(one, "of one")()
	if got := owner.next(2); !slices.Equal(got, []string{"of other 100", "of one 100"}) {
		t.Errorf("the owner's: %v", got)
	}
	if got := limited.next(1); !slices.Equal(got, []string{"of one 100"}) {
		t.Errorf("by grant: %v", got)
	}
	b.grant(int64(one), "") // taken away, which both are told of
	if got := append(owner.next(1), limited.next(1)...); !slices.Equal(got, []string{"user_update 100", "user_update 100"}) {
		t.Errorf("the grant's end: %v", got)
	}
	b.begins(one, "after the grant")()
	owner.next(1)
	if got := limited.close(); got == "" {
		t.Error("no id was sent")
	}
	// Nobody's position shows another's events.
	again := follow(t, url, stranger, limited.last)
	b.begins(one, "last")()
	owner.next(1)
	again.close()
	foreign.close()
	var token int64
	if err := b.store.Pool().QueryRow(t.Context(), "DELETE FROM tokens WHERE scopes = '*' AND user_id = (SELECT id FROM users WHERE account_id = $1 AND NOT restricted) RETURNING id", int64(b.account)).Scan(&token); err != nil {
		t.Fatal(err)
	}
	b.begins(one, "after the token")()
	owner.ended()
}

// TestSlowFollower: who doesn't read is cut, and costs no more than the batches that wait.
func TestSlowFollower(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.serveStream()
	id := cluster.ID(b.create())
	p, err := b.api.Control.Auth.Authenticate(t.Context(), b.full)
	if err != nil {
		t.Fatal(err)
	}
	var reader *control.EventReader
	await.NoError(t, "the hub runs", func() error {
		if reader, err = b.api.Control.Events.Follow(t.Context(), p, "", false); err == nil && reader == nil {
			return errors.New("nothing to follow")
		}
		return err
	})
	defer reader.Close()
	await.True(t, "it is cut", func() bool {
		b.begins(id, "one more")()
		return b.api.Control.Events.Hub.Listeners() == 0
	})
	batches := 0
	for range reader.Batches() { // until it is closed
		batches++
	}
	if batches > cap(reader.Batches()) {
		t.Errorf("%d batches were kept", batches)
	}
}
