package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/template"
	"time"

	"steward/bench/command"
)

// profile is how a Patroni cluster is set.
type profile struct {
	name     string
	TTL      int
	LoopWait int
	Retry    int
	// StartTimeout is how long Patroni tries to restart a crashed primary in place
	// before it fails over; 0 fails over at once.
	StartTimeout int
	// Check is HAProxy's health check.
	Check        string
	CheckTimeout string
}

// profiles: the default values of Patroni's documentation with its template for
// HAProxy, and the quickest that its documentation allows.
var profiles = map[string]profile{
	"default": {"default", 30, 10, 10, 300, "inter 3s fall 3 rise 2", "5s"},
	"tuned":   {"tuned", 20, 1, 3, 0, "inter 500ms fall 2 rise 1", "1s"},
}

const (
	peerNodes    = 3
	peerPassword = "peer"
	pgBin        = "/usr/lib/postgresql/15/bin"
)

// patroni is three Patroni nodes with one etcd and HAProxy before them, all of this
// host. One etcd flatters the peer: its writes wait for no majority.
type patroni struct {
	profile  profile
	dir      string
	as       *syscall.Credential
	endpoint Endpoint
	nodes    []*peerNode
	others   []*program // etcd and HAProxy
	sync     bool
}

type peerNode struct {
	Name, Dir string
	REST, PG  int
	agent     *program
}

func (n *peerNode) data() string { return filepath.Join(n.Dir, "data") }

// peerSettings are what the templates read.
type peerSettings struct {
	profile
	Root        string
	Etcd, Port  int
	Synchronous bool
	Commit      string
	Password    string
	Bin         string
	Nodes       []*peerNode
	*peerNode   // the node whose file is written
}

// waitsForReplica tells the commit types that promise more than the primary's disk.
func waitsForReplica(commit string) bool {
	return commit == "on" || commit == "remote_write" || commit == "remote_apply"
}

func startPatroni(ctx context.Context, p profile, m mode) (Target, error) {
	c := &patroni{profile: p, sync: waitsForReplica(m.commit)}
	if err := c.start(ctx, m.commit); err != nil {
		return nil, errors.Join(fmt.Errorf("start Patroni: %w", err), c.Close())
	}
	return c, nil
}

func (c *patroni) start(ctx context.Context, commit string) error {
	if err := c.folders(ctx); err != nil {
		return err
	}
	ports, err := freePorts(2*peerNodes + 3)
	if err != nil {
		return err
	}
	etcd, etcdPeer, port := ports[0], ports[1], ports[2]
	for i := range peerNodes {
		name := fmt.Sprintf("n%d", i+1)
		c.nodes = append(c.nodes, &peerNode{Name: name, Dir: filepath.Join(c.dir, name), REST: ports[3+2*i], PG: ports[4+2*i]})
	}
	ca, err := os.ReadFile(filepath.Join(c.dir, "cert.pem"))
	if err != nil {
		return err
	}
	c.endpoint = Endpoint{
		Engine: postgreSQL, Host: "127.0.0.1", ServerName: "127.0.0.1", Port: port, User: "postgres", Password: peerPassword,
		Database: "postgres", CA: ca,
	}
	s := peerSettings{
		profile: c.profile, Root: c.dir, Etcd: etcd, Port: port, Synchronous: c.sync, Commit: commit, Password: peerPassword,
		Bin: pgBin, Nodes: c.nodes,
	}
	if err := c.startEtcd(etcd, etcdPeer); err != nil {
		return err
	}
	if err := c.startNodes(ctx, s); err != nil {
		return err
	}
	return c.startHAProxy(s)
}

// folders makes the cluster's folder and its certificate, the servers' own.
func (c *patroni) folders(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "failover-patroni-")
	if err != nil {
		return err
	}
	c.dir = dir
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root
		if c.as, err = credential("postgres"); err != nil {
			return err
		}
		if err := os.Chown(dir, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return err
		}
	}
	return c.run(ctx, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
		"-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
		"-keyout", filepath.Join(dir, "key.pem"), "-out", filepath.Join(dir, "cert.pem"))
}

func (c *patroni) run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.SysProcAttr = c.dir, &syscall.SysProcAttr{Credential: c.as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

func (c *patroni) startEtcd(port, peer int) error {
	client, peers := fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", peer)
	etcd, err := start(c.as, c.dir, filepath.Join(c.dir, "etcd.log"), "etcd", "--name", "e1", "--data-dir", filepath.Join(c.dir, "etcd"),
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peers,
		"--initial-advertise-peer-urls", peers, "--initial-cluster", "e1="+peers)
	if err != nil {
		return err
	}
	c.others = append(c.others, etcd)
	return nil
}

// startNodes waits for the first: nodes that start together race for who bootstraps.
func (c *patroni) startNodes(ctx context.Context, s peerSettings) error {
	for i, n := range c.nodes {
		if err := os.Mkdir(n.Dir, 0o700); err != nil {
			return err
		}
		if c.as != nil {
			if err := os.Chown(n.Dir, int(c.as.Uid), int(c.as.Gid)); err != nil {
				return err
			}
		}
		s.peerNode = n
		if err := write(filepath.Join(n.Dir, "patroni.yml"), patroniFile, s); err != nil {
			return err
		}
		if err := c.startAgent(n); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		if err := c.awaitPrimary(ctx); err != nil {
			return fmt.Errorf("%w\n%s", err, tail(filepath.Join(n.Dir, "patroni.log")))
		}
	}
	return nil
}

// awaitPrimary waits for the bootstrap of the first node, and no longer when that failed.
func (c *patroni) awaitPrimary(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return command.Until(ctx, 100*time.Millisecond, func() error {
		_, err := c.Primary(ctx)
		if err != nil && !c.nodes[0].agent.running() {
			cancel()
		}
		return err
	})
}

func (c *patroni) startAgent(n *peerNode) (err error) {
	n.agent, err = start(c.as, n.Dir, filepath.Join(n.Dir, "patroni.log"), "patroni", filepath.Join(n.Dir, "patroni.yml"))
	return err
}

func (c *patroni) startHAProxy(s peerSettings) error {
	file := filepath.Join(c.dir, "haproxy.cfg")
	if err := write(file, haproxyFile, s); err != nil {
		return err
	}
	proxy, err := start(c.as, c.dir, filepath.Join(c.dir, "haproxy.log"), "/usr/sbin/haproxy", "-db", "-f", file)
	if err != nil {
		return err
	}
	c.others = append(c.others, proxy)
	return nil
}

// Name is the column of the report.
func (c *patroni) Name() string { return "patroni-" + c.profile.name }

// Endpoint is HAProxy's.
func (c *patroni) Endpoint() Endpoint { return c.endpoint }

// Primary is the node that says so itself.
func (c *patroni) Primary(ctx context.Context) (Node, error) {
	n, err := c.primary(ctx)
	if err != nil {
		return Node{}, err
	}
	pid, err := n.postmaster()
	if err != nil {
		return Node{}, err
	}
	return Node{Name: n.Name, Address: fmt.Sprintf("127.0.0.1:%d", n.PG), Server: pid, Agent: n.agent.pid(), DataDir: n.data()}, nil
}

func (c *patroni) primary(ctx context.Context) (*peerNode, error) {
	var errs []error
	for _, n := range c.nodes {
		if n.agent == nil {
			continue
		}
		if err := n.get(ctx, "primary", nil); err != nil {
			errs = append(errs, err)
			continue
		}
		return n, nil
	}
	return nil, fmt.Errorf("no node is primary: %w", errors.Join(errs...))
}

// postmaster is the process id that PostgreSQL keeps in its folder.
func (n *peerNode) postmaster() (int, error) {
	text, err := os.ReadFile(filepath.Join(n.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0, fmt.Errorf("postmaster.pid of %s: %w", n.Name, err)
	}
	return pid, nil
}

var restClient = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// get asks a node's REST API; anything but 200 is an error.
func (n *peerNode) get(ctx context.Context, path string, out any) error {
	return n.call(ctx, restClient, http.MethodGet, path, nil, out)
}

func (n *peerNode) call(ctx context.Context, client *http.Client, method, path string, in []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d/%s", n.REST, path), bytes.NewReader(in))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s of %s answers %d %s", path, n.Name, resp.StatusCode, body)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(body, out)
}

// Healthy is nil when the primary streams to both others.
func (c *patroni) Healthy(ctx context.Context) error {
	leader, err := c.primary(ctx)
	if err != nil {
		return err
	}
	var status struct {
		Replication []struct {
			State string `json:"state"`
			Sync  string `json:"sync_state"`
		} `json:"replication"`
	}
	if err := leader.get(ctx, "patroni", &status); err != nil {
		return err
	}
	streaming, synchronous := 0, 0
	for _, r := range status.Replication {
		if r.State == "streaming" {
			streaming++
		}
		if r.Sync == "sync" || r.Sync == "quorum" {
			synchronous++
		}
	}
	if streaming != peerNodes-1 || c.sync && synchronous == 0 {
		return fmt.Errorf("the primary streams to %d, to %d in step", streaming, synchronous)
	}
	for _, n := range c.nodes {
		if err := n.get(ctx, "health", nil); err != nil {
			return err
		}
	}
	return nil
}

// Restart starts an agent that was killed, as systemd would.
func (c *patroni) Restart(_ context.Context, hit Node) error {
	for _, n := range c.nodes {
		if n.Name == hit.Name && !n.agent.running() {
			return c.startAgent(n)
		}
	}
	return nil
}

// Switchover answers once it is done.
func (c *patroni) Switchover(ctx context.Context) error {
	n, err := c.primary(ctx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"leader": n.Name})
	if err != nil {
		return err
	}
	slow := &http.Client{Timeout: time.Minute}
	return n.call(ctx, slow, http.MethodPost, "switchover", body, nil)
}

// Close ends the agents, which end their servers, and then what they left.
func (c *patroni) Close() error {
	if c.dir == "" {
		return nil
	}
	var wg sync.WaitGroup
	for _, n := range c.nodes {
		if n.agent != nil {
			wg.Go(func() { n.agent.stop(20 * time.Second) })
		}
	}
	wg.Wait()
	for _, p := range c.others {
		p.stop(5 * time.Second)
	}
	// A killed agent's server is nobody's child. The folder's name is ours alone.
	for _, pid := range processesOf(c.dir) {
		_ = kill(pid) // it may have ended by itself
	}
	if err := removeAll(c.dir); err != nil {
		return fmt.Errorf("close Patroni: %w", err)
	}
	return nil
}

func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// freePorts are held together until all are known, so that they differ.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// write fills in a template; the servers' user reads it, no secret in it is anyone's.
func write(path, text string, s peerSettings) error {
	t, err := template.New(filepath.Base(path)).Parse(text)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, s); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

func tail(path string) string {
	text, _ := os.ReadFile(path)
	return string(text[max(0, len(text)-4000):])
}

// patroniFile follows postgres0.yml of Patroni's source.
const patroniFile = `scope: failover
name: {{.Name}}
restapi:
  listen: 127.0.0.1:{{.REST}}
  connect_address: 127.0.0.1:{{.REST}}
etcd3:
  host: 127.0.0.1:{{.Etcd}}
bootstrap:
  dcs:
    ttl: {{.TTL}}
    loop_wait: {{.LoopWait}}
    retry_timeout: {{.Retry}}
    maximum_lag_on_failover: 1048576
    primary_start_timeout: {{.StartTimeout}}
    synchronous_mode: {{.Synchronous}}
    postgresql:
      use_pg_rewind: true
      use_slots: true
      parameters:
        synchronous_commit: "{{.Commit}}"
        wal_keep_size: 128MB
  initdb: [{encoding: UTF8}, data-checksums]
postgresql:
  listen: 127.0.0.1:{{.PG}}
  connect_address: 127.0.0.1:{{.PG}}
  data_dir: {{.Dir}}/data
  bin_dir: {{.Bin}}
  pgpass: {{.Dir}}/pgpass
  authentication:
    superuser: {username: postgres, password: {{.Password}}}
    replication: {username: replicator, password: {{.Password}}}
    rewind: {username: rewinder, password: {{.Password}}}
  parameters:
    unix_socket_directories: {{.Dir}}
    ssl: "on"
    ssl_cert_file: {{.Root}}/cert.pem
    ssl_key_file: {{.Root}}/key.pem
  pg_hba:
    - local all all scram-sha-256
    - host replication replicator 127.0.0.1/32 scram-sha-256
    - hostssl all all 127.0.0.1/32 scram-sha-256
    - host all all 127.0.0.1/32 scram-sha-256
`

// haproxyFile follows haproxy.cfg of Patroni's source.
const haproxyFile = `global
    maxconn 200
defaults
    mode tcp
    retries 2
    timeout client 30m
    timeout connect 4s
    timeout server 30m
    timeout check {{.CheckTimeout}}
listen primary
    bind 127.0.0.1:{{.Port}}
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server {{.Check}} on-marked-down shutdown-sessions
{{- range .Nodes}}
    server {{.Name}} 127.0.0.1:{{.PG}} maxconn 100 check port {{.REST}}
{{- end}}
`
