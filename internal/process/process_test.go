package process_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/process"
)

// server is a spec for a shell script with a mark of its own; whatever is left
// of it is killed at the end of the test.
func server(t *testing.T, script string) process.Spec {
	t.Helper()
	dir, err := os.MkdirTemp("", "process-test-")
	if err != nil {
		t.Fatal(err)
	}
	s := process.Spec{
		Identity: process.Identity{Mark: "test-" + filepath.Base(dir) + "/one"},
		Argv:     []string{"/bin/sh", "-c", script},
		Env:      []string{"PATH=/usr/bin:/bin"},
		WorkDir:  dir,
		Output:   filepath.Join(dir, "out"),
		PidFile:  filepath.Join(dir, "pid"),
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := process.KillAll(ctx, s.Identity, nil); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	return s
}

func start(t *testing.T, s process.Spec) *process.Process {
	t.Helper()
	p, err := process.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// testPatience is long: machines that run tests are busy.
const testPatience = 20 * time.Second

func ended(t *testing.T, p *process.Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(testPatience):
		t.Fatal("no notice of the process's end")
	}
}

func holds(path, text string) func() bool {
	return func() bool {
		content, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(content), text)
	}
}

func members(t *testing.T, id process.Identity) []int {
	t.Helper()
	list, err := id.Members()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestServerRunsAsSpecified(t *testing.T) {
	t.Setenv("NOT_FOR_SERVERS", "secret")
	s := server(t, `umask; pwd; ulimit -n; ulimit -c; echo "[$A][$NOT_FOR_SERVERS]"; cat; ps -o sid= -p $$; echo end$$ >&2; exec sleep 1000`)
	s.Env = append(s.Env, "A=1")
	s.Limits.OpenFiles = 333
	p := start(t, s)
	pid := strconv.Itoa(p.Pid())
	await.True(t, "output", holds(s.Output, "end"+pid))
	content, err := os.ReadFile(s.Output)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(content))
	want := []string{"0077", s.WorkDir, "333", "0", "[1][]", pid, "end" + pid}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %q, want %q", got, want)
	}
	if since := time.Since(p.Started()); since < -time.Second || since > 30*time.Second {
		t.Errorf("started %v ago", since)
	}
}

// TestAProcessBeganOnce: when a process began is the same whenever it is asked, on a busy machine, too.
func TestAProcessBeganOnce(t *testing.T) {
	p := start(t, server(t, `exec sleep 1000`))
	var over atomic.Bool
	var others sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		others.Go(func() {
			for !over.Load() { // busy
			}
		})
	}
	defer others.Wait()
	defer over.Store(true)
	began := p.Started()
	for until := time.Now().Add(500 * time.Millisecond); time.Now().Before(until); {
		if now := p.Started(); !now.Equal(began) {
			t.Fatalf("it began at %v, and then at %v", began, now)
		}
	}
}

func TestExitIsNoticedAndLeavesNoZombie(t *testing.T) {
	p := start(t, server(t, `exit 3`))
	pid := p.Pid()
	ended(t, p)
	if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); err == nil {
		t.Error("an entry in the process table is left")
	}
	if p.Running() {
		t.Error("still said to run")
	}
}

func TestServerIsAdoptedByPidFile(t *testing.T) {
	s := server(t, `exec sleep 1000`)
	first := start(t, s)
	second, err := process.Adopt(s.PidFile, s.Identity)
	if err != nil || second == nil {
		t.Fatalf("not adopted: %v", err)
	}
	if second.Pid() != first.Pid() {
		t.Errorf("adopted %d, want %d", second.Pid(), first.Pid())
	}
	if err := second.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended(t, second)
	ended(t, first)
	if again, err := process.Adopt(s.PidFile, s.Identity); err != nil || again != nil {
		t.Errorf("adopted a dead server: %v, %v", again, err)
	}
}

// The exit of a process that is nobody's child of ours must be seen too.
func TestExitOfAnAdoptedStrangerIsNoticed(t *testing.T) {
	s := server(t, `exec sleep 1000`)
	// Started by another process, which then dies: what a killed steward leaves.
	helper := exec.Command(os.Args[0], "-test.run=TestHelperStartsAServer")
	helper.Env = append(os.Environ(), "PROCESS_TEST_DIR="+s.WorkDir, "PROCESS_TEST_MARK="+s.Mark)
	if output, err := helper.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	p, err := process.Adopt(s.PidFile, s.Identity)
	if err != nil || p == nil {
		t.Fatalf("not adopted: %v", err)
	}
	select {
	case <-p.Done():
		t.Fatal("ended with its starter")
	default:
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended(t, p)
}

func TestHelperStartsAServer(t *testing.T) {
	dir := os.Getenv("PROCESS_TEST_DIR")
	if dir == "" {
		t.Skip("runs as the helper of another test only")
	}
	_, err := process.Start(process.Spec{
		Identity: process.Identity{Mark: os.Getenv("PROCESS_TEST_MARK")},
		Argv:     []string{"/bin/sleep", "1000"}, WorkDir: dir,
		Output: filepath.Join(dir, "out"), PidFile: filepath.Join(dir, "pid"),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPidFilesThatMustNotBeBelieved(t *testing.T) {
	s := server(t, `exec sleep 1000`)
	start(t, s)
	good, err := os.ReadFile(s.PidFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"empty":                  "",
		"torn":                   string(good[:len(good)/2]),
		"other start time":       strings.Replace(string(good), `"start":`, `"start":1`, 1),
		"other boot":             strings.Replace(string(good), `"boot":"`, `"boot":"x`, 1),
		"other server's":         strings.Replace(string(good), s.Mark, "somebody/else", 1),
		"init":                   `{"pid":1,"start":0}`,
		"no process of that pid": `{"pid":4194303,"start":5}`,
	} {
		if err := os.WriteFile(s.PidFile, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := process.Adopt(s.PidFile, s.Identity); err != nil || p != nil {
			t.Errorf("%s: adopted %v, %v", name, p, err)
		}
	}
}

func TestNothingRunsWithoutBeingOnRecord(t *testing.T) {
	s := server(t, `touch ran; exec sleep 1000`)
	s.PidFile = filepath.Join(s.WorkDir, "no", "such", "folder", "pid")
	if _, err := process.Start(s); err == nil {
		t.Fatal("started without a pid file")
	}
	if left := members(t, s.Identity); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(s.WorkDir, "ran")); err == nil {
		t.Error("the server ran")
	}
}

func TestKillAllReachesEveryProcess(t *testing.T) {
	// A child in a session of its own, an orphan, and one with a clean
	// environment that only its working folder gives away.
	script := `setsid sleep 1001 & (sleep 1002 &) & env -i sleep 1003 & echo up; exec sleep 1000`
	for _, mainFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("main process dead already: %v", mainFirst), func(t *testing.T) {
			s := server(t, script)
			s.Identity.Dir = s.WorkDir
			p := start(t, s)
			await.True(t, "four processes", func() bool { return len(members(t, s.Identity)) == 4 })
			if mainFirst {
				if err := p.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				ended(t, p)
				if left := members(t, s.Identity); len(left) != 3 {
					t.Errorf("%d processes outlive the main one, want 3", len(left))
				}
			}
			if err := process.KillAll(t.Context(), s.Identity, nil); err != nil {
				t.Fatal(err)
			}
			ended(t, p)
			if left := members(t, s.Identity); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A process shows no environment in the middle of an exec, and belongs all the same.
func TestAProcessInAnExecBelongs(t *testing.T) {
	s := server(t, `exec /bin/sh ./again`)
	if err := os.WriteFile(filepath.Join(s.WorkDir, "again"), []byte("exec /bin/sh ./again\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, s)
	const looks = 3000
	missed := 0
	for range looks {
		if len(members(t, s.Identity)) != 1 {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("not among the members in %d of %d looks", missed, looks)
	}
	if err := process.KillAll(t.Context(), s.Identity, nil); err != nil {
		t.Fatal(err)
	}
	ended(t, p)
}

// Whether a process that comes and goes belongs, another may say otherwise each time it looks: KillAll ends all the same.
func TestKillAllEndsWhileAProcessComesAndGoes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	for range 20 { // most are met at home at once
		s := server(t, `while :; do cd /; cd "$OLDPWD"; done`)
		for p := start(t, s); p.Running(); {
			if err := process.KillAll(ctx, process.Identity{Dir: s.WorkDir}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A killed server's port must be free when KillAll returns, however long its
// threads take to die.
func TestKillAllWaitsUntilFilesAreLetGo(t *testing.T) {
	if dir := os.Getenv("PROCESS_TEST_THREADS"); dir != "" {
		holdLockWithManyThreads(dir)
	}
	for range 10 {
		s := server(t, ``)
		s.Argv = []string{os.Args[0], "-test.run=TestKillAllWaitsUntilFilesAreLetGo"}
		s.Env = append(s.Env, "PROCESS_TEST_THREADS="+s.WorkDir)
		start(t, s)
		await.True(t, "the lock to be held", holds(s.Output, "held"))
		if err := process.KillAll(t.Context(), s.Identity, nil); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(s.WorkDir, "lock"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			t.Errorf("the killed process still holds its lock: %v", err)
		}
		f.Close()
	}
}

// holdLockWithManyThreads is a server with much to tear down.
func holdLockWithManyThreads(dir string) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		panic(err)
	}
	memory, err := syscall.Mmap(-1, 0, 200<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE) // out of the race detector's sight
	if err != nil {
		panic(err)
	}
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	for range 50 {
		go func() {
			runtime.LockOSThread()
			var ts syscall.Timespec
			ts.Sec = 1000
			_ = syscall.Nanosleep(&ts, nil)
		}()
	}
	time.Sleep(20 * time.Millisecond)
	fmt.Println("held")
	time.Sleep(time.Hour)
}

func TestStopAsksFirstAndKillsLater(t *testing.T) {
	for name, script := range map[string]string{
		"obedient": `trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done`,
		"stubborn": `trap '' TERM; echo up; while :; do sleep 0.01; done`,
		"waiting":  `trap : TERM; sleep 4321 & echo up; wait; wait; echo bye`,
	} {
		t.Run(name, func(t *testing.T) {
			s := server(t, script)
			p := start(t, s)
			await.True(t, "start", holds(s.Output, "up"))
			patience := 300 * time.Millisecond
			if name != "stubborn" {
				patience = time.Minute
			}
			child := func(title string) syscall.Signal {
				if strings.Contains(title, "4321") {
					return syscall.SIGUSR1 // which nobody ignores for it, as nohup does with SIGHUP
				}
				return 0
			}
			if err := p.Stop(t.Context(), process.Request{Signal: syscall.SIGTERM, Patience: patience, Child: child}, nil); err != nil {
				t.Fatal(err)
			}
			if p.Running() || len(members(t, s.Identity)) > 0 {
				t.Error("something still runs")
			}
			if said := holds(s.Output, "bye")(); said != (name != "stubborn") {
				t.Errorf("said goodbye: %v", said)
			}
		})
	}
}

func TestServerOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const uid = 791234
	s := server(t, `id -u; id -G; env -i sh -c 'cd /; setsid sleep 1001 &'; exec sleep 1000`)
	s.User, s.Group, s.Identity.UID = uid, uid, uid
	if err := os.Chown(s.WorkDir, uid, uid); err != nil {
		t.Fatal(err)
	}
	start(t, s)
	await.True(t, "two processes", func() bool { return len(members(t, s.Identity)) == 2 })
	await.True(t, "user and groups", holds(s.Output, "791234\n791234\n"))
	if err := process.KillAll(t.Context(), s.Identity, nil); err != nil {
		t.Fatal(err)
	}
	if left := members(t, s.Identity); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Two stewards may give the same user id to servers of theirs.
func TestAnotherMarkProtectsFromTheSameUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const uid = 791237
	s := server(t, `env -i sleep 1001 & exec sleep 1000`)
	s.User, s.Group, s.Identity.UID = uid, uid, uid
	if err := os.Chown(s.WorkDir, uid, uid); err != nil {
		t.Fatal(err)
	}
	p := start(t, s)
	await.True(t, "two processes", func() bool { return len(members(t, s.Identity)) == 2 })
	other := process.Identity{Mark: "somebody/else", UID: uid}
	if err := process.KillAll(t.Context(), other, nil); err != nil {
		t.Fatal(err)
	}
	if !p.Running() || len(members(t, s.Identity)) != 2 {
		t.Error("another steward's server was killed")
	}
	if err := process.KillAll(t.Context(), s.Identity, nil); err != nil {
		t.Fatal(err)
	}
}

// Nodes of a cluster have the same user, and start at the same time, each after what was left of it is killed.
func TestAnotherMarkProtectsWhileAServerStarts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const uid, starts = 791238, 500
	s := server(t, `exec sleep 1000`)
	s.User, s.Group, s.Identity.UID = uid, uid, uid
	if err := os.Chown(s.WorkDir, uid, uid); err != nil {
		t.Fatal(err)
	}
	var ending sync.RWMutex // who ends has no mark any more
	var over atomic.Bool
	var looking sync.WaitGroup
	var taken atomic.Int64
	for range 4 {
		looking.Go(func() {
			for other := (process.Identity{Mark: "somebody/else", UID: uid}); !over.Load(); {
				ending.RLock()
				list, err := other.Members()
				ending.RUnlock()
				if err != nil {
					t.Error(err)
				}
				taken.Add(int64(len(list)))
			}
		})
	}
	for range starts {
		p, err := process.Start(s)
		ending.Lock()
		if err != nil {
			t.Error(err)
		} else {
			if err := p.Signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			ended(t, p)
		}
		ending.Unlock()
	}
	over.Store(true)
	looking.Wait()
	if n := taken.Load(); n > 0 {
		t.Errorf("%d times in %d starts a server was taken for another's", n, starts)
	}
}

func TestMarkedFindsServersByPrefix(t *testing.T) {
	s := server(t, `exec sleep 1000`)
	p := start(t, s)
	prefix, _, _ := strings.Cut(s.Mark, "/")
	var found map[string][]int
	await.True(t, "the server's own environment", func() bool {
		var err error
		if found, err = process.Marked(prefix + "/"); err != nil {
			t.Fatal(err)
		}
		return len(found) == 1
	})
	if len(found[s.Mark]) != 1 || found[s.Mark][0] != p.Pid() {
		t.Errorf("found %v, want %s: [%d]", found, s.Mark, p.Pid())
	}
}

func TestRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 5 {
		fmt.Fprintf(f, "%d%099d", i, 0)
		if err := process.Rotate(path, 99, 2); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprint(f, "small")
	if err := process.Rotate(path, 99, 2); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	entries, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range entries {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got[filepath.Base(name)] = string(content[:min(1, len(content))])
	}
	want := map[string]string{"out": "s", "out.1": "4", "out.2": "3"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestLeave: a process that is left runs on, and nothing of its watch is there.
func TestLeave(t *testing.T) {
	t.Parallel()
	s := server(t, "sleep 60")
	p := start(t, s)
	p.Leave()
	p.Leave() // twice is once
	select {
	case <-p.Done():
		t.Error("a process that was left counts as ended")
	default:
	}
	again, err := process.Adopt(s.PidFile, s.Identity)
	if err != nil || again == nil {
		t.Fatalf("adopted %v, %v; want the process that was left", again, err)
	}
	if err := again.Stop(t.Context(), process.Request{Signal: syscall.SIGKILL, Patience: testPatience}, nil); err != nil {
		t.Fatal(err)
	}
	ended(t, again)
	again.Leave()
}

// TestALeftProcessIsReaped: one that ends while nobody watches is no process any more
// for whoever looks for it.
func TestALeftProcessIsReaped(t *testing.T) {
	t.Parallel()
	s := server(t, "sleep 60")
	p := start(t, s)
	pid := p.Pid()
	p.Leave()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await.True(t, "adopted no more", func() bool {
		again, err := process.Adopt(s.PidFile, s.Identity)
		if err != nil {
			t.Fatal(err)
		}
		if again != nil {
			again.Leave()
		}
		return again == nil
	})
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("its entry is still there")
	}
}
