package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"steward/internal/failpoint"
	"steward/internal/process"
)

// instance is one generation of HAProxy: a process with its own runtime socket.
// The newest listens; older ones keep their sessions until those end.
type instance struct {
	generation int
	process    *process.Process
	socket     string
	// ports have frontends, sorted.
	ports []int
	// drained reports whether the frontends are shut.
	drained bool
}

func (i *instance) serves(port int) bool {
	_, found := slices.BinarySearch(i.ports, port)
	return found
}

func (g *Gateway) pidFile(generation int) string {
	return filepath.Join(g.o.Dir, fmt.Sprintf("haproxy-%d.pid", generation))
}

func (g *Gateway) socket(generation int) string {
	return filepath.Join(g.o.RunDir, fmt.Sprintf("gateway-%d.sock", generation))
}

// identity marks the generation's process. The mark's first part keeps it apart
// from those of database servers.
func (g *Gateway) identity(generation int) process.Identity {
	return process.Identity{Mark: fmt.Sprintf("gateway:%s/%d", g.o.Dir, generation)}
}

// generations are those that there are pid files of, newest first.
func (g *Gateway) generations() ([]int, error) {
	files, err := filepath.Glob(filepath.Join(g.o.Dir, "haproxy-*.pid"))
	if err != nil {
		return nil, fmt.Errorf("find HAProxy: %w", err)
	}
	var list []int
	for _, f := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "haproxy-"), ".pid")
		if n, err := strconv.Atoi(name); err == nil {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	slices.Reverse(list)
	return list, nil
}

// clear removes what a generation that has ended left on disk.
func (g *Gateway) clear(generation int) error {
	for _, path := range []string{g.socket(generation), g.pidFile(generation)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clear up after HAProxy: %w", err)
		}
	}
	return nil
}

// launch starts a generation with frontends for the ports and waits until it
// answers. It takes the sockets over from another one, unless that is nil.
func (g *Gateway) launch(ctx context.Context, ports []int, from *instance) (*instance, error) {
	g.newest++
	i := &instance{generation: g.newest, socket: g.socket(g.newest), ports: ports}
	c := g.config(i.socket, ports)
	if err := g.writeFiles(render(c)); err != nil {
		return nil, err
	}
	argv := []string{g.o.Binary, "-db", "-C", g.o.Dir, "-f", configName}
	if from != nil {
		argv = append(argv, "-x", from.socket)
	}
	if err := process.Rotate(g.outputFile(), outputMost, outputKeep); err != nil {
		return nil, fmt.Errorf("start HAProxy: %w", err)
	}
	began := outputSize(g.outputFile())
	var err error
	i.process, err = process.Start(process.Spec{
		Identity: g.identity(i.generation), Argv: argv, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		WorkDir: g.o.Dir, Output: g.outputFile(), PidFile: g.pidFile(i.generation),
		Limits: process.Rlimits{OpenFiles: openFiles(c.MaxConn, len(ports))}, OOMScore: -500,
	})
	if err != nil {
		return nil, fmt.Errorf("start HAProxy: %w", err)
	}
	failpoint.Here("gateway: HAProxy started")
	if err := g.awaitAnswer(ctx, i); err != nil {
		return nil, errors.Join(fmt.Errorf("start HAProxy: %w%s", err, outputSince(g.outputFile(), began)), g.end(i))
	}
	g.log.Info("HAProxy started", "generation", i.generation, "pid", i.process.Pid(), "ports", len(ports))
	return i, nil
}

// awaitAnswer returns when HAProxy answers, which it does once it listens.
func (g *Gateway) awaitAnswer(ctx context.Context, i *instance) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	err := i.process.Await(ctx, 2*time.Millisecond, func(ctx context.Context) (bool, error) {
		_, err := g.inspect(ctx, i)
		return err == nil, err
	})
	switch {
	case errors.Is(err, process.ErrEnded):
		return errors.New("it ended at once")
	case err != nil:
		return fmt.Errorf("it doesn't answer: %w", err)
	}
	return nil
}

// inspect is what a generation says of itself.
func (g *Gateway) inspect(ctx context.Context, i *instance) (map[string]string, error) {
	r, err := dial(ctx, i.socket)
	if err != nil {
		return nil, err
	}
	defer r.close()
	text, err := r.ask("show info")
	if err != nil {
		return nil, err
	}
	return parseInfo(text), nil
}

// drain makes a generation accept no new connections. It keeps those it has.
func (g *Gateway) drain(ctx context.Context, i *instance) error {
	if i.drained {
		return nil
	}
	r, err := dial(ctx, i.socket)
	if err != nil {
		return fmt.Errorf("drain HAProxy: %w", err)
	}
	defer r.close()
	fronts, err := frontends(r)
	if err != nil {
		return fmt.Errorf("drain HAProxy: %w", err)
	}
	var commands []string
	for _, name := range slices.Sorted(maps.Keys(fronts)) {
		if fronts[name].open {
			commands = append(commands, "shutdown frontend "+name)
		}
	}
	if _, err := r.run(commands...); err != nil {
		return fmt.Errorf("drain HAProxy: %w", err)
	}
	i.drained = true
	return nil
}

// frontends are those of databases.
func frontends(r *runtime) (map[string]frontend, error) {
	text, err := r.ask("show stat -1 1 -1")
	if err != nil {
		return nil, err
	}
	all, err := parseFrontends(text)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(all, func(name string, _ frontend) bool {
		_, ours := portOf(name)
		return !ours
	})
	return all, nil
}

// portOf is the port of a frontend's name.
func portOf(name string) (int, bool) {
	which, number, _ := strings.Cut(name, "-")
	port, err := strconv.Atoi(number)
	return port, err == nil && proxyName(role(which), port) == name && (role(which) == primary || role(which) == reads)
}

// end kills a generation, with all its sessions, and clears up after it.
func (g *Gateway) end(i *instance) error {
	// Not the caller's context: what was begun is brought to its end.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := i.process.Stop(ctx, process.Request{Signal: syscall.SIGTERM, Patience: time.Second}, nil); err != nil {
		return fmt.Errorf("end HAProxy: %w", err)
	}
	return g.clear(i.generation)
}

// writeFiles puts the rendered files in place and takes away access lists of
// ports that are no more.
func (g *Gateway) writeFiles(files map[string]string) error {
	for name, content := range files {
		if err := process.WriteFile(filepath.Join(g.o.Dir, name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("write HAProxy's files: %w", err)
		}
	}
	present, err := os.ReadDir(filepath.Join(g.o.Dir, aclDir))
	if err != nil {
		return fmt.Errorf("write HAProxy's files: %w", err)
	}
	for _, entry := range present {
		name := aclDir + "/" + entry.Name()
		if _, wanted := files[name]; wanted {
			continue
		}
		if err := os.Remove(filepath.Join(g.o.Dir, name)); err != nil {
			return fmt.Errorf("write HAProxy's files: %w", err)
		}
	}
	return nil
}

// outputMost is how large HAProxy's output, a line per changed server, may grow, and
// outputKeep how many old ones stay.
const outputMost, outputKeep = 1 << 20, 2

func (g *Gateway) outputFile() string { return filepath.Join(g.o.Dir, "haproxy.log") }

func outputSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// outputSince is what HAProxy complained of, for an error's text.
func outputSince(path string, began int64) string {
	content, err := os.ReadFile(path)
	if err != nil || began > int64(len(content)) {
		return ""
	}
	var alerts []string
	for line := range strings.Lines(string(content[began:])) {
		if strings.Contains(line, "[ALERT]") && len(alerts) < 5 {
			alerts = append(alerts, strings.TrimSpace(line))
		}
	}
	if len(alerts) == 0 {
		return ""
	}
	return ": " + strings.Join(alerts, "; ")
}

// openFiles is how many files a HAProxy needs: two for a connection, one for a
// listener, and some of its own.
func openFiles(maxConn, ports int) uint64 { return uint64(2*maxConn + 2*ports + 256) }

// maxConn is how many connections the process's limit of open files allows, up
// to wanted.
func maxConn(wanted, ports int) (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	if limit.Max >= openFiles(wanted, ports) {
		return wanted, nil
	}
	most := (int(limit.Max) - int(openFiles(0, ports))) / 2
	if most < 100 {
		return 0, fmt.Errorf("limit of open files is %d: the gateway needs at least %d for %d ports; raise it with `ulimit -n`",
			limit.Max, openFiles(100, ports), ports)
	}
	return most, nil
}
