package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"steward/internal/durable"
	"steward/internal/process"
	"steward/internal/scram"
)

// settings keep a small, quiet, durable server: steward writes little, and an
// idle one must cost next to nothing.
var settings = []string{
	"listen_addresses=", "unix_socket_permissions=0700", "max_connections=100",
	"shared_buffers=32MB", "max_wal_size=256MB", "jit=off", "max_parallel_workers=0",
	"wal_level=minimal", "max_wal_senders=0", "max_logical_replication_workers=0",
	"bgwriter_delay=10s", "wal_writer_delay=10s", "checkpoint_timeout=30min", "autovacuum_naptime=5min", "autovacuum_max_workers=1",
	"log_min_messages=warning", "log_checkpoints=off",
}

// settingsFor are the settings of the server of a data folder.
func settingsFor(data string) []string {
	all := slices.Clone(settings)
	version, _ := dataVersion(data)
	if version >= 14 {
		all = append(all, "recovery_init_sync_method=syncfs") // a tenth of the time of syncing each file
	}
	if version >= 18 {
		all = append(all, "io_method=sync") // no workers that wake up for nothing
	}
	return all
}

// distribution is where Debian's packages put each version's programs.
const distribution = "/usr/lib/postgresql"

// findPostgreSQL is the folder of the server programs for a data folder: those
// it was made with, or the newest when there is none yet.
func findPostgreSQL(bin, data string) (string, error) {
	if bin != "" {
		return bin, nil
	}
	if version, ok := dataVersion(data); ok {
		bin = filepath.Join(distribution, strconv.Itoa(version), "bin")
		if _, err := os.Stat(filepath.Join(bin, "postgres")); err != nil {
			return "", fmt.Errorf("the store in %s was made by PostgreSQL %d, which isn't installed any more: install the package postgresql-%d", data, version, version)
		}
		return bin, nil
	}
	newest := 0
	found, _ := filepath.Glob(filepath.Join(distribution, "*", "bin", "initdb")) // the pattern is well-formed
	for _, path := range found {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		if err == nil && version > newest {
			bin, newest = filepath.Dir(path), version
		}
	}
	if newest == 0 {
		return "", errors.New("no PostgreSQL server is installed for the store: install the package postgresql, or name a database with --store")
	}
	return bin, nil
}

// dataVersion is the major version a data folder was made by.
func dataVersion(data string) (int, bool) {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return 0, false
	}
	version, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return version, err == nil
}

// UID is the user of the store when steward is root: one that nothing else
// on the machine has, just below the range of the customers' servers.
const UID = 699_999

// owner is whom the server runs as, 0 for the caller's own user.
// PostgreSQL refuses to be root.
func owner() (int, error) {
	if os.Geteuid() != 0 {
		return 0, nil
	}
	maps, err := os.ReadFile("/proc/self/uid_map")
	if err == nil && mapped(string(maps), UID) {
		return UID, nil
	}
	uid, _, err := namedUser() // a container with few user ids
	return uid, err
}

// mapped reports whether a user id exists in a user namespace, by its uid_map.
func mapped(uidMap string, uid int) bool {
	for line := range strings.Lines(uidMap) {
		var first, outside, count int
		if _, err := fmt.Sscan(line, &first, &outside, &count); err == nil && uid >= first && uid-first < count {
			return true
		}
	}
	return false
}

// namedUser is an unprivileged user with an entry in the list of users, which
// initdb insists on. The data is given to its owner afterwards.
func namedUser() (uid, gid int, err error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.Atoi(u.Uid)
		gid, errG := strconv.Atoi(u.Gid)
		return uid, gid, errors.Join(errU, errG)
	}
	return 0, 0, errors.New("there is neither a user postgres nor nobody to set the store up as")
}

// setUp makes the data folder, all or nothing.
func (s *Server) setUp(ctx context.Context) error {
	if err := errors.Join(os.MkdirAll(s.o.Dir, 0o711), os.Chmod(s.o.Dir, 0o711)); err != nil {
		return err
	}
	if err := s.checkReach(s.o.Dir); err != nil {
		return err
	}
	if _, err := os.Stat(s.data()); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.forgetAttempts()
	secret, err := newPassword()
	if err != nil {
		return err
	}
	// The password first: data whose password is unknown would be of no use.
	if err := durable.WriteFile(passwordFile(s.o.Dir), []byte(secret+"\n")); err != nil {
		return err
	}
	attempt, err := os.MkdirTemp(s.o.Dir, attemptPrefix)
	if err != nil {
		return err
	}
	if err := s.initdb(ctx, attempt, secret); err != nil {
		os.RemoveAll(attempt)
		return err
	}
	if err := os.Rename(attempt, s.data()); err != nil {
		return err
	}
	// Without this a power failure could take the folder's name back, and with
	// it all that was committed since.
	return durable.Sync(s.o.Dir)
}

const attemptPrefix = "new-"

// forgetAttempts removes what killed set-ups left. An initdb that still runs in
// one of them is on its way out and harms nothing.
func (s *Server) forgetAttempts() {
	left, _ := filepath.Glob(filepath.Join(s.o.Dir, attemptPrefix+"*")) // the pattern is well-formed
	for _, dir := range left {
		_ = os.RemoveAll(dir) // the next set-up tries again
	}
}

func (s *Server) initdb(ctx context.Context, dir, secret string) error {
	verifier, err := scram.Verifier(secret, scram.OwnRounds) // in place of a password PostgreSQL takes this as well
	if err != nil {
		return err
	}
	password, err := filledPipe(verifier + "\n")
	if err != nil {
		return err
	}
	defer password.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), "--pgdata="+dir, "--username="+role, "--auth=scram-sha-256",
		"--pwfile=/dev/stdin", "--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums", "--no-instructions",
		"--wal-segsize=1") // steward writes little: two segments of the usual 16 MB would be half of the data
	cmd.Dir, cmd.Stdin, cmd.Env = "/", password, []string{"LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"}
	if s.owner != 0 {
		uid, gid, err := namedUser()
		if err != nil {
			return err
		}
		if err := errors.Join(os.Chown(dir, uid, gid), password.Chown(uid, gid)); err != nil {
			return err
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return s.give(dir)
}

// filledPipe holds a short text, for a program that wants to read it from a
// file: nothing of it reaches a disk.
func filledPipe(text string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = w.WriteString(text)
	if err = errors.Join(err, w.Close()); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// prepare puts in order what the server needs to start; it must not be running.
func (s *Server) prepare() error {
	if err := os.MkdirAll(s.o.RunDir, 0o700); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(s.o.RunDir, 0o700), s.give(s.o.RunDir), s.give(s.data())); err != nil {
		return err
	}
	if err := s.checkReach(filepath.Dir(s.o.RunDir)); err != nil {
		return err
	}
	return forgetPostmaster(s.data(), s.o.RunDir)
}

// give makes a folder and all in it the server's.
func (s *Server) give(dir string) error {
	if s.owner == 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == s.owner && int(st.Gid) == s.owner {
			return nil
		}
		return os.Lchown(path, s.owner, s.owner)
	})
}

// checkReach checks that the server's user can get to the folder.
func (s *Server) checkReach(dir string) error {
	if s.owner == 0 {
		return nil
	}
	return process.CheckReach(dir)
}

// forgetPostmaster removes the lock files, of data and of sockets, of a server that is
// known to be dead. PostgreSQL would believe them while nobody has taken notice of its
// end, or when its process id is in use again by the same user, which after a restart of a
// container is likely.
func forgetPostmaster(data, sockets string) error {
	path := filepath.Join(data, "postmaster.pid")
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	cwd, err := os.Readlink(filepath.Join("/proc", strings.TrimSpace(first), "cwd"))
	if err == nil && cwd == data {
		return nil // somebody started it by hand: let PostgreSQL refuse
	}
	for _, lock := range []string{path, filepath.Join(sockets, ".s.PGSQL.5432.lock")} {
		if err := os.Remove(lock); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
