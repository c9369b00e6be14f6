package statuspage_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/statuspage"
)

// hostile is what a title, a label or a reply may be.
const hostile = `</title></style><script>alert(1)</script><img src=x onerror="alert(1)">"' ]]> javascript:alert(1)`

type world struct {
	*statuspage.Pages
	reads atomic.Int32
	now   time.Time
	page  monitor.PublicPage
	wait  chan struct{}
	err   error
}

func newWorld() *world {
	began := time.Date(2026, 1, 30, 9, 0, 0, 0, time.UTC)
	w := &world{now: time.Date(2026, 1, 31, 18, 4, 5, 0, time.UTC)}
	w.page = monitor.PublicPage{
		Slug: "shop", Title: "Shop", Days: 2, State: monitor.Outage, At: w.now, ShowResponseTimes: true,
		Entries: []monitor.PublicEntry{
			{Name: "Front", State: monitor.Outage, Uptime: new(99.999), Mean: new(123 * time.Millisecond), Days: []monitor.PublicDay{
				{Day: began.Truncate(24 * time.Hour)}, {Day: began.Truncate(24 * time.Hour).Add(24 * time.Hour), Uptime: new(50.0)},
			}},
			{Name: hostile, State: monitor.Operational},
		},
		Incidents: []monitor.PublicIncident{
			{ID: 7, Names: []string{"Front"}, Began: began, Updates: []monitor.PublicUpdate{{ID: 9, At: began.Add(time.Hour), Text: "We look at it.\n" + hostile}}},
			{ID: 6, Names: []string{hostile}, Began: began.Add(-time.Hour), Ended: &began, Updates: []monitor.PublicUpdate{{ID: 8, At: began, Text: "Well again."}}},
		},
	}
	w.Pages = statuspage.New(statuspage.Options{
		Find: func(_ context.Context, slug string) (monitor.PublicPage, error) {
			w.reads.Add(1)
			if w.wait != nil {
				<-w.wait
			}
			if w.err != nil {
				return monitor.PublicPage{}, w.err
			}
			if slug != "shop" {
				return monitor.PublicPage{}, fault.NewNotFound()
			}
			return w.page, nil
		},
		Address: func(r *http.Request) string { return r.Header.Get("From") },
		Logger:  slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now },
	})
	return w
}

func (w *world) get(path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("From", "192.0.2.1")
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, r)
	return answer
}

// TestPage: everything on it is text, whatever it is made of; there is no script and no cookie, and the policy allows
// nothing but its own styles.
func TestPage(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.page.Title = hostile
	r := w.get("/status/shop")
	text := r.Body.String()
	if r.Code != http.StatusOK || r.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%d %v %s", r.Code, r.Header(), text)
	}
	for _, bad := range []string{"<script", "<img", `href="javascript:`, "style="} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	if bare := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(text, `""`); regexp.MustCompile(`<[^>]*\son\w+=`).MatchString(bare) {
		t.Error("an attribute is a script")
	}
	for _, want := range []string{"Some of it is down.", "99.99 %", "123 ms", "30 January 2026: no data", "31 January 2026: 50 %", "We look at it.", "&lt;script&gt;", "<h2>Now</h2>", "Past incidents"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(text, "100 %") {
		t.Error("99.999 % is shown as 100 %")
	}
	h := r.Header()
	if h.Values("Set-Cookie") != nil || h.Get("X-Frame-Options") != "DENY" || h.Get("Cache-Control") != "public, max-age=15" {
		t.Errorf("headers %v", h)
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(text)
	sum := sha256.Sum256([]byte(style[1]))
	if policy := h.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") || strings.Contains(policy, "script-src") {
		t.Errorf("policy %s", policy)
	}
}

// TestFormats: JSON, Atom and the badge say the same, and are what they say that they are.
func TestFormats(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := w.get("/status/shop.json")
	var page struct {
		State   string
		Entries []struct {
			Name, State string
			Mean        *float64 `json:"mean_response_time"`
			Days        []struct {
				Day    string
				Uptime *float64
			}
		}
		Incidents []struct {
			Ended   *string
			Updates []struct{ Text string }
		}
	}
	if err := json.Unmarshal(r.Body.Bytes(), &page); err != nil || r.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Fatal(err, r.Header(), r.Body)
	}
	if page.State != "outage" || len(page.Entries) != 2 || page.Entries[1].Name != hostile || *page.Entries[0].Mean != 0.123 || page.Entries[1].Mean != nil ||
		page.Entries[0].Days[0].Uptime != nil || page.Entries[0].Days[1].Day != "2026-01-31" || page.Incidents[0].Ended != nil || page.Incidents[1].Updates[0].Text != "Well again." {
		t.Errorf("%s", r.Body)
	}
	r = w.get("/status/shop.atom")
	var feed struct {
		XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
		ID      string   `xml:"id"`
		Updated string   `xml:"updated"`
		Entries []struct {
			ID      string `xml:"id"`
			Content string `xml:"content"`
		} `xml:"entry"`
	}
	if err := xml.Unmarshal(r.Body.Bytes(), &feed); err != nil || !strings.HasPrefix(r.Header().Get("Content-Type"), "application/atom+xml") {
		t.Fatal(err, r.Header())
	}
	if feed.ID != "urn:steward:status:shop" || feed.Updated != "2026-01-30T10:00:00Z" || len(feed.Entries) != 2 || feed.Entries[0].ID != "urn:steward:status:shop:7:9" || !strings.Contains(feed.Entries[0].Content, hostile) {
		t.Errorf("%+v", feed)
	}
	r = w.get("/status/shop/badge.svg")
	if err := xml.Unmarshal(r.Body.Bytes(), new(struct{})); err != nil || r.Header().Get("Content-Type") != "image/svg+xml" || !strings.Contains(r.Body.String(), "<title>status: outage</title>") {
		t.Error(err, r.Body)
	}
	for _, path := range []string{"/status/", "/status/nosuch", "/status/nosuch.json", "/status/nosuch/badge.svg", "/status/shop/other", "/status/shop.xml", "/status/shop%2F..", "/status/.json"} {
		if r := w.get(path); r.Code != http.StatusNotFound || strings.Contains(r.Body.String(), "nosuch") {
			t.Errorf("%s: %d %s", path, r.Code, r.Body)
		}
	}
	if r := httptest.NewRecorder(); true {
		w.ServeHTTP(r, httptest.NewRequest(http.MethodPost, "/status/shop", nil))
		if r.Code == http.StatusOK {
			t.Error("a POST is answered")
		}
	}
}

// TestCache: a page is read once in fifteen seconds, and once for all who ask together; what isn't there is asked for
// each time.
func TestCache(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.wait = make(chan struct{})
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() { w.get("/status/shop") })
	}
	close(w.wait)
	readers.Wait()
	w.get("/status/shop.json")
	if n := w.reads.Load(); n != 1 {
		t.Errorf("read %d times for readers at once", n)
	}
	w.now = w.now.Add(14 * time.Second)
	w.get("/status/shop")
	if n := w.reads.Load(); n != 1 {
		t.Errorf("read %d times within 15 s", n)
	}
	w.now = w.now.Add(2 * time.Second)
	w.get("/status/shop")
	if n := w.reads.Load(); n != 2 {
		t.Errorf("read %d times after 16 s", n)
	}
	w.get("/status/nosuch")
	w.get("/status/nosuch")
	if n := w.reads.Load(); n != 4 {
		t.Errorf("%d reads after two of what isn't there", n)
	}
}

// TestUnreadable: a page whose store is away is told to be there later, and isn't kept as missing.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.err = errors.New("away")
	if r := w.get("/status/shop"); r.Code != http.StatusServiceUnavailable || r.Header().Get("Retry-After") != "60" {
		t.Errorf("%d %v", r.Code, r.Header())
	}
	w.err = nil
	if r := w.get("/status/shop"); r.Code != http.StatusOK {
		t.Errorf("afterwards: %d", r.Code)
	}
}

// TestRate: an address that tries slugs is stopped, and others aren't.
func TestRate(t *testing.T) {
	t.Parallel()
	w := newWorld()
	last := 0
	for i := range statuspage.PerMinute + 1 {
		last = w.get(fmt.Sprint("/status/guess-", i)).Code
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("guess %d was answered with %d", statuspage.PerMinute+1, last)
	}
	r := httptest.NewRequest(http.MethodGet, "/status/shop", nil)
	r.Header.Set("From", "192.0.2.2")
	answer := httptest.NewRecorder()
	if w.ServeHTTP(answer, r); answer.Code != http.StatusOK {
		t.Errorf("another address: %d", answer.Code)
	}
	if _, err := io.ReadAll(answer.Body); err != nil {
		t.Error(err)
	}
	w.now = w.now.Add(time.Minute)
	if code := w.get("/status/shop").Code; code != http.StatusOK {
		t.Errorf("after a minute: %d", code)
	}
}
