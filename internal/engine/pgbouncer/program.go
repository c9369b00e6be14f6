package pgbouncer

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Program is an installed PgBouncer.
type Program struct {
	Path string
	// Major and Minor are its version.
	Major, Minor int
}

// ErrMissing is returned by Find where there is no PgBouncer.
var ErrMissing = errors.New("PgBouncer is not installed: `apt-get install pgbouncer`")

// places are where PgBouncer is put, by distributions and by hand.
var places = []string{"pgbouncer", "/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/sbin/pgbouncer", "/usr/local/bin/pgbouncer"}

// Find returns the newest PgBouncer that is installed.
func Find(ctx context.Context) (Program, error) {
	var newest Program
	problem := ErrMissing
	var seen []string
	for _, place := range places {
		path, err := exec.LookPath(place)
		if err != nil {
			continue
		}
		if path, err = filepath.Abs(path); err != nil || slices.Contains(seen, path) {
			continue
		}
		seen = append(seen, path)
		p, err := look(ctx, path)
		if err != nil {
			problem = err
		} else if newest.Path == "" || p.newer(newest) {
			newest = p
		}
	}
	if newest.Path == "" {
		return newest, problem
	}
	return newest, nil
}

var versionLine = regexp.MustCompile(`^PgBouncer (\d+)\.(\d+)`)

func look(ctx context.Context, path string) (Program, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return Program{}, fmt.Errorf("run %s: %w", path, err)
	}
	m := versionLine.FindSubmatch(out)
	if m == nil {
		return Program{}, fmt.Errorf("%s is no PgBouncer: it says %.100q", path, out)
	}
	p := Program{Path: path}
	p.Major, _ = strconv.Atoi(string(m[1])) // digits
	p.Minor, _ = strconv.Atoi(string(m[2]))
	if p.Major == 1 && p.Minor < oldest {
		return p, fmt.Errorf("%s is version %s: 1.%d is the oldest that pools work with", path, p.Version(), oldest)
	}
	return p, nil
}

const (
	// oldest is the first minor version that takes a new certificate without a restart.
	oldest = 16
	// prepared is the first that keeps clients' prepared statements apart in transaction mode.
	prepared = 21
)

func (p Program) newer(other Program) bool {
	return p.Major > other.Major || p.Major == other.Major && p.Minor > other.Minor
}

// Version is major and minor version as one text, such as "1.18".
func (p Program) Version() string { return fmt.Sprintf("%d.%d", p.Major, p.Minor) }

// Prepares reports whether clients can use prepared statements while connections are shared.
func (p Program) Prepares() bool { return p.Major > 1 || p.Major == 1 && p.Minor >= prepared }
