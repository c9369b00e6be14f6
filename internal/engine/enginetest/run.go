package enginetest

import (
	"cmp"
	"context"
	"crypto/x509"
	"database/sql"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"steward/internal/engine"
	"steward/internal/testdir"
)

// Options are what a driver's test brings to the suite.
type Options struct {
	// Open makes a handle for the node's TCP address. It need not connect.
	Open func(n engine.Node, l Login) (*sql.DB, error)
	// Attempts are what dbadmin must not get away with, and some that it must.
	Attempts []Attempt
	// Refused reports whether an error is a refusal for want of a privilege, as
	// opposed to an attempt that is misspelt and proves nothing. Nil takes any error.
	Refused func(error) bool
	// Intact gives a look that is taken of a server after each attempt, for what
	// no attempt may bring about: a new superuser, a file. It may be nil.
	Intact func(t *testing.T, s *Server) (look func(t *testing.T))
	// NewUser are statements by which dbadmin makes a user newcomer with the
	// password Newcomer-4Kq8. Without it there are no cases about points in time.
	NewUser func(engine.Installation) []string
	// Checks are the driver's own, run on each installation too.
	Checks []Check
}

// Check is a test on one installation.
type Check struct {
	Name string
	Run  func(t *testing.T, b *Bench)
}

// Login is how a customer logs in.
type Login struct {
	User, Password, Database string
	// CA verifies the server's certificate and name; nil means no TLS at all.
	CA *x509.CertPool
}

// Attempt is SQL that tries to get past the privileges.
type Attempt struct {
	Name string
	// Database to start in, `defaultdb` when empty.
	Database string
	// SQL are statements run one after the other as dbadmin, on one connection.
	// All but the last may fail. "{{tmp}}" stands for a folder that the
	// server's user can write to.
	SQL []string
	// Allowed turns the test round: every statement must succeed.
	Allowed bool
	// Only limits the attempt to some installations; nil means all.
	Only func(engine.Installation) bool
	// Refusal is a text that must be in the last statement's error; when empty,
	// Options.Refused decides.
	Refusal string
	// After looks for damage, whatever the statements answered. Without it the
	// last statement must have been refused.
	After func(t *testing.T, s *Server, last error)
}

// Run runs the suite on the installations to test with: each behaviour once.
func Run(t *testing.T, driver engine.Driver, o Options) {
	for _, inst := range Installations(t, driver) {
		t.Run(inst.ID(), func(t *testing.T) {
			t.Parallel()
			b := NewBench(t, driver, inst, o)
			for _, c := range b.checks() {
				b.Case(t, c.Name, c.Run)
			}
			if !b.other() {
				b.Case(t, "privileges", runAttempts)
			}
		})
	}
	t.Run("patch", func(t *testing.T) { runPatches(t, driver, discovered(t, driver), o) })
}

// RunThorough runs what [Run] leaves of the suite, and what it has only a part of.
func RunThorough(t *testing.T, driver engine.Driver, o Options) {
	if Thorough() {
		return // Run has all of it
	}
	for _, inst := range Installations(t, driver) {
		t.Run(inst.ID(), func(t *testing.T) {
			t.Parallel()
			b := NewBench(t, driver, inst, o)
			b.thorough = true
			for _, c := range b.left() {
				b.Case(t, c.Name, c.Run)
			}
		})
	}
}

// shortPath are the checks that builds other than the distribution's have: one of each
// kind. The rest is tried on the distribution's, and on all by `make test-thorough`.
var shortPath = []string{"one server", "encryption at rest", "three nodes", "backup: what goes wrong"}

// otherPath are those of another build of a series that the distribution has: that its
// programs are found and do what the distribution's do. Only [RunThorough] has them: clusters of three of such a build are
// internal/platform/host's, which patches them.
var otherPath = []string{"one server"}

// thoroughPath are those that [Run] has of no build: what prepares the suite's templates makes them from nothing, and
// a part of the others proves what these prove further.
var thoroughPath = []string{
	"a template made from nothing", "bootstrap survives a kill at any time", "three nodes, asynchronous", "point in time: definers and users",
	"a meter tells a load by as much as it is",
}

// partlyRun are those of which [Run] has a part.
var partlyRun = []string{"encryption at rest", "point in time", "backup: what goes wrong", "three nodes: point in time over a failover"}

// otherParts are those of "one server" that a build of the same series may do in another way: it has libraries of its
// own for TLS, passwords and collations, and extensions. All else is the series' own, and how we use it.
var otherParts = []string{
	"bootstrap survives a kill", "version", "bootstrap is repeatable, committed rows survive kill -9", "logins with TLS required",
	"a meter tells what is done",
	"root password rotates", "statements are counted", "databases and users", "reload takes a new certificate", "read-only guard",
	"passwords are nowhere in the clear, as other text is",
}

// checks are those that the bench's installation has to pass now.
func (b *Bench) checks() []Check {
	all := slices.Concat(b.suite(), b.Options.Checks)
	switch {
	case Thorough():
		return all
	case b.whole():
		return slices.DeleteFunc(all, func(c Check) bool { return slices.Contains(thoroughPath, c.Name) })
	}
	names := slices.Clone(shortPath)
	switch {
	case b.other():
		return nil
	case b.Driver.EncryptionMissing(b.Installation) != "":
		names = append(names, "backup under writes", "point in time: definers and users")
	}
	return slices.DeleteFunc(all, func(c Check) bool { return !slices.Contains(names, c.Name) })
}

// left are the suite's checks that the bench's installation hasn't to pass now, or not the whole of.
func (b *Bench) left() []Check {
	if b.other() {
		return slices.DeleteFunc(b.suite(), func(c Check) bool { return !slices.Contains(otherPath, c.Name) })
	}
	now, partly := b.checks(), partlyRun
	if !b.whole() {
		partly = append(slices.Clone(partly), "three nodes")
	}
	return slices.DeleteFunc(b.suite(), func(c Check) bool {
		return !slices.Contains(partly, c.Name) && slices.ContainsFunc(now, func(has Check) bool { return has.Name == c.Name })
	})
}

// suite are the checks that are no driver's own.
func (b *Bench) suite() []Check {
	return slices.Concat(basicCases(), replicationCases(), backupCases(), pitrCases(b.Options))
}

// whole reports whether the bench's installation has to pass everything.
func (b *Bench) whole() bool { return Thorough() || rank(b.Installation) > 0 }

// long reports whether what is tried is to be tried further than [Run] does.
func (b *Bench) long() bool { return b.thorough || Thorough() }

// other reports whether the bench's installation is another minor version of a series
// that the distribution has, and tests are to be quick.
func (b *Bench) other() bool {
	return !b.whole() && b.Installation.Flavour == engine.FlavourPostgreSQL
}

// EnginesFolder is where `make engines` puts server builds for tests.
func EnginesFolder() string {
	if dir := os.Getenv("STEWARD_ENGINES"); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		// Root's home is closed to the users that servers run as.
		return "/var/cache/steward/engines"
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".cache", "steward", "engines")
}

// allEngines is what the environment says to have tests run on every build
// there is; `make test-engines` sets it.
const allEngines = "STEWARD_TEST_ENGINES"

// Installations are the builds to test with: by default the distribution's, and
// of flavours that it hasn't the newest; of PostgreSQL another minor of the same
// series, too. With STEWARD_TEST_ENGINES=all everything that was found.
func Installations(t *testing.T, driver engine.Driver) []engine.Installation {
	t.Helper()
	found := discovered(t, driver)
	if Thorough() {
		return found
	}
	return few(found)
}

// Thorough reports whether tests may take their time.
func Thorough() bool { return os.Getenv(allEngines) == "all" }

// discovered are those the driver finds. A machine with none fails the test: a
// suite that ran on nothing has proven nothing.
func discovered(t *testing.T, driver engine.Driver) []engine.Installation {
	t.Helper()
	testdir.NeedsServers(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	found, notes := driver.Discover(ctx, []string{EnginesFolder()})
	for _, note := range notes {
		t.Logf("not usable: %v", note)
	}
	if len(found) == 0 {
		t.Fatalf("no installation found on this machine or below %s: install the distribution's package or run `make engines`", EnginesFolder())
	}
	return found
}

func few(found []engine.Installation) []engine.Installation {
	newest := map[engine.Flavour]engine.Installation{}
	for _, i := range found {
		now, ok := newest[i.Flavour]
		if !ok || rank(i) > rank(now) || rank(i) == rank(now) && engine.CompareVersions(i.Version, now.Version) > 0 {
			newest[i.Flavour] = i
		}
	}
	chosen := slices.Collect(maps.Values(newest))
	if pg, ok := newest[engine.FlavourPostgreSQL]; ok {
		for _, i := range found {
			if i.Flavour == pg.Flavour && i.Series == pg.Series && i.Version != pg.Version {
				chosen = append(chosen, i)
				break
			}
		}
	}
	slices.SortFunc(chosen, func(a, b engine.Installation) int { return cmp.Compare(a.ID(), b.ID()) })
	return chosen
}

// rank puts the distribution's builds first: they are what most run.
func rank(i engine.Installation) int {
	if i.Builder == "debian" {
		return 1
	}
	return 0
}
