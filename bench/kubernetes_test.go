package bench

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/engine/postgresql"
	"steward/internal/kubetest"
	"steward/internal/platform/kubernetes"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/simulator"
	"steward/test/harness"
)

var (
	clusters = flag.Int("clusters", 1000, "how many databases are in the region on Kubernetes")
	measured = flag.Bool("measured", true, "whether databases on Kubernetes are measured every ten seconds, as they are by default")
	idle     = flag.Duration("idle", time.Minute, "for how long what idle databases cost is counted")
)

// BenchmarkKubernetes has a thousand databases of a region on Kubernetes be made, steward be killed and adopt them again, and measures what they cost it while
// they are idle. The API server is a real one; of databases there are the objects, and one server answers for all.
func BenchmarkKubernetes(b *testing.B) {
	n := *clusters
	k := kubetest.Start(b)
	in := region(b, k)
	s := harness.Prepare(b, harness.WithPorts(n), harness.WithConfig("catalog: {file: "+in.catalog+"}"))
	s.Env = append(s.Env, fmt.Sprintf("STEWARD_METRICS__DATABASES=%t", *measured))
	s.Start()
	time.Sleep(10 * time.Second) // what a start leaves to do
	empty := harness.ResidentBytes(s.PID())
	cpu := harness.CPUSeconds(s.PID())
	time.Sleep(*idle / 2)
	cpu = (harness.CPUSeconds(s.PID()) - cpu) / (*idle / 2).Seconds()
	for b.Loop() {
		begun := time.Now()
		sizes := createMany(b, s, n)
		awaitAll(b, s, n, "active")
		report(b, "create all", time.Since(begun).Seconds(), "s", "")
		time.Sleep(20 * time.Second) // what creating leaves to do
		cost(b, s, in.config, n, empty, cpu, sizes)

		s.Kill()
		before := adopted(b, s)
		begun = time.Now()
		s.Start()
		ready := time.Since(begun)
		for adopted(b, s)-before < n {
			if time.Since(begun) > 10*time.Minute {
				b.Fatalf("%d of %d adopted", adopted(b, s)-before, n)
			}
			time.Sleep(100 * time.Millisecond)
		}
		report(b, "ready again after kill -9", ready.Seconds(), "s-ready", "")
		report(b, "adopt all after kill -9", time.Since(begun).Seconds(), "s-adopt", "<= 30")
		time.Sleep(20 * time.Second)
		report(b, "memory for a database, after that", float64(harness.ResidentBytes(s.PID())-empty)/float64(n)/1024, "KiB-adopted", "<= 64")
		awaitAll(b, s, n, "active")
	}
}

// cost reports what idle databases take. made are the sizes of the process while they were made.
func cost(b *testing.B, s *harness.Server, config *rest.Config, n int, empty int64, cpu float64, made []int64) {
	b.Helper()
	writes, used := apiWrites(b, config), harness.CPUSeconds(s.PID())
	time.Sleep(*idle)
	seconds := idle.Seconds()
	report(b, "writes to the API server while idle", (apiWrites(b, config)-writes)/seconds, "writes/s", "<= 10")
	report(b, "a core for an idle database", ((harness.CPUSeconds(s.PID())-used)/seconds-cpu)/float64(n)*100, "%-core", "< 0.05")
	resident := harness.ResidentBytes(s.PID())
	report(b, "memory for a database", float64(resident-empty)/float64(n)/1024, "KiB", "<= 64")
	fmt.Printf("steward's memory: %d MiB empty", empty>>20)
	for i, m := range made {
		fmt.Printf(", %d MiB with %d", m>>20, (i+1)*n/len(made))
	}
	fmt.Printf(", %d MiB idle\n", resident>>20)
}

// place is a namespace that a region is in.
type place struct {
	catalog string
	config  *rest.Config
}

// region is one with a crowd in it, and the catalog that has it.
func region(b *testing.B, k *kubetest.Server) place {
	b.Helper()
	kubernetes.LogTo(slog.New(slog.DiscardHandler))
	scheme, err := kubernetes.Scheme()
	if err != nil {
		b.Fatal(err)
	}
	admin := k.Admin(b)
	c, err := client.NewWithWatch(admin, client.Options{Scheme: scheme})
	if err != nil {
		b.Fatal(err)
	}
	simulator.Define(b, c)
	namespace := k.Namespace(b, c)
	const image = "registry.example/postgresql:15.17-bookworm"
	offer := &cnpg.ImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "postgresql", Namespace: namespace}, Spec: cnpg.ImageCatalogSpec{Images: []cnpg.CatalogImage{{Major: 15, Image: image}}}}
	if err := c.Create(b.Context(), offer); err != nil {
		b.Fatal(err)
	}
	simulator.StartCrowd(b, c, simulator.Options{Namespace: namespace, Images: simulator.Images(b, postgresql.New(), map[string]string{image: "15.17"})})
	k.Grant(b, namespace, "steward", kubernetes.Rights())
	dir := b.TempDir()
	kubeconfig, catalog := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "catalog.yaml")
	menu := fmt.Sprintf("regions:\n  - {id: kube, label: Over there, country: de, status: ok, platform: {kind: kubernetes, kubeconfig: %s, namespace: %s, images: postgresql, from: [127.0.0.1/32]}}\n", kubeconfig, namespace)
	for path, text := range map[string]string{kubeconfig: kubetest.Kubeconfig(k.User(b, "steward"), namespace), catalog: menu} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return place{catalog, admin}
}

// createMany posts, several at once, and returns the sizes of the process after each quarter became active.
func createMany(b *testing.B, s *harness.Server, n int) (sizes []int64) {
	b.Helper()
	for quarter := range 4 {
		var work sync.WaitGroup
		next := make(chan int)
		for range 8 {
			work.Go(func() {
				for i := range next {
					spec := harness.Small(fmt.Sprintf("many-%d", i), "postgresql/15")
					spec["region"] = "kube"
					if status, body, err := s.TryCall("POST", "/v4/databases/postgresql/instances", spec, nil); status != 200 {
						b.Errorf("create: %d %s %v", status, body, err)
					}
				}
			})
		}
		for i := quarter * n / 4; i < (quarter+1)*n/4; i++ {
			next <- i
		}
		close(next)
		work.Wait()
		if b.Failed() {
			b.FailNow()
		}
		awaitAll(b, s, (quarter+1)*n/4, "active")
		sizes = append(sizes, harness.ResidentBytes(s.PID()))
	}
	return sizes
}

// awaitAll waits until so many databases have a status.
func awaitAll(b *testing.B, s *harness.Server, n int, status string) {
	b.Helper()
	for deadline := time.Now().Add(15 * time.Minute); ; time.Sleep(500 * time.Millisecond) {
		found := 0
		for page := 1; ; page++ {
			var list struct {
				Data  []harness.Database
				Pages int
			}
			if code, body := s.Call("GET", fmt.Sprintf("/v4/databases/instances?page_size=500&page=%d", page), nil, &list); code != 200 {
				b.Fatalf("%d %s", code, body)
			}
			for _, d := range list.Data {
				if d.Status == status {
					found++
				}
			}
			if page >= list.Pages {
				break
			}
		}
		if found == n {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d are %s\n%s", found, n, status, s.LogTail())
		}
	}
}

// adopted counts the databases that the server's log says were.
func adopted(b *testing.B, s *harness.Server) (n int) {
	b.Helper()
	f, err := os.Open(s.LogPath)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.Contains(lines.Text(), "msg=adopted ") {
			n++
		}
	}
	return n
}

var requestPattern = regexp.MustCompile(`(?m)^apiserver_request_total\{.*verb="(?:APPLY|POST|PUT|PATCH|DELETE|DELETECOLLECTION)"\} (\S+)$`)

// apiWrites are all that the API server was asked for.
func apiWrites(b *testing.B, config *rest.Config) (sum float64) {
	b.Helper()
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/metrics", nil)
	if err != nil {
		b.Fatal(err)
	}
	answer, err := transport.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range requestPattern.FindAllStringSubmatch(string(text), -1) {
		value, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += value
	}
	return sum
}
