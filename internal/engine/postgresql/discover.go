package postgresql

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"steward/internal/engine"
	"steward/internal/parameter"
)

// oldest is the first major version that the driver knows how to run.
const oldest = 13

// distributionServers is where Debian and its kin put each major version.
const distributionServers = "/usr/lib/postgresql/*/bin/postgres"

// Discover finds the distribution's servers and those described in folders.
func (Driver) Discover(ctx context.Context, folders []string) (found []engine.Installation, notes []error) {
	described, notes := engine.Described(folders, engine.FlavourPostgreSQL)
	servers, err := filepath.Glob(distributionServers)
	if err != nil {
		notes = append(notes, fmt.Errorf("look for PostgreSQL in %s: %w", distributionServers, err))
	}
	for _, server := range servers {
		inst, err := distribution(ctx, filepath.Dir(filepath.Dir(server)))
		if err != nil {
			notes = append(notes, err)
			continue
		}
		found = append(found, inst)
	}
	for _, inst := range described {
		if err := check(ctx, inst); err != nil {
			notes = append(notes, err)
			continue
		}
		found = append(found, inst)
	}
	for i := range found {
		found[i].Libraries = librariesOf(found[i])
	}
	slices.SortStableFunc(found, func(a, b engine.Installation) int { return engine.CompareVersions(a.Version, b.Version) })
	return found, notes
}

// distribution describes the server below a home such as /usr/lib/postgresql/15.
func distribution(ctx context.Context, home string) (engine.Installation, error) {
	inst := engine.Installation{Flavour: engine.FlavourPostgreSQL, Home: home, Bin: map[string]string{
		"postgres": filepath.Join(home, "bin", "postgres"),
		"initdb":   filepath.Join(home, "bin", "initdb"),
	}}
	version, remark, err := askVersion(ctx, inst)
	if err != nil {
		return inst, err
	}
	inst.Version, inst.Builder = version, builder(remark)
	inst.Series, _, _ = strings.Cut(version, ".")
	return inst, check(ctx, inst)
}

// builder tells builds apart by what the distribution adds to the version:
// "(Debian 15.18-0+deb12u1)" or "(Debian 15.18-1.pgdg120+1)".
func builder(remark string) string {
	remark = strings.ToLower(strings.Trim(remark, "() "))
	if strings.Contains(remark, "pgdg") {
		return "pgdg"
	}
	if name, _, ok := strings.Cut(remark, " "); ok {
		return name
	}
	return "system"
}

// check is nil when the installation can be used.
func check(ctx context.Context, inst engine.Installation) error {
	major, err := majorOf(inst)
	if err != nil {
		return err
	}
	if major < oldest {
		return fmt.Errorf("%s is older than the oldest series supported, %d", inst.ID(), oldest)
	}
	for _, tool := range []string{"postgres", "initdb"} {
		if _, err := exec.LookPath(inst.Bin[tool]); err != nil {
			return fmt.Errorf("%s has no usable %s: %w", inst.ID(), tool, err)
		}
	}
	version, _, err := askVersion(ctx, inst)
	if err != nil {
		return err
	}
	if version != inst.Version || !strings.HasPrefix(version, strconv.Itoa(major)) {
		return fmt.Errorf("%s says that its version is %s", inst.ID(), version)
	}
	return nil
}

// askVersion runs `postgres -V`: "postgres (PostgreSQL) 15.18 (Debian …)".
func askVersion(ctx context.Context, inst engine.Installation) (version, remark string, err error) {
	argv := inst.Program("postgres", "-V")
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = environment()
	out, err := cmd.Output()
	if err != nil {
		return "", "", fmt.Errorf("ask %s for its version: %w", argv[0], err)
	}
	return parseVersion(string(out))
}

func parseVersion(line string) (version, remark string, err error) {
	_, rest, ok := strings.Cut(strings.TrimSpace(line), "(PostgreSQL) ")
	version, remark, _ = strings.Cut(rest, " ")
	if major, minor, dotted := strings.Cut(version, "."); !ok || !dotted || !number(major) || !number(minor) {
		return "", "", fmt.Errorf("no released version in %q", line)
	}
	return version, remark, nil
}

func number(s string) bool {
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}

// librariesOf are those that come with a build and that steward can have loaded. Where they lie follows from where the
// server's program does.
func librariesOf(inst engine.Installation) (found []string) {
	prefix := filepath.Dir(filepath.Dir(inst.Bin["postgres"]))
	for _, library := range append([]string{statementsLibrary}, parameter.Libraries()...) {
		for _, folder := range []string{"lib", "lib/postgresql", "lib64", "lib64/postgresql", "lib64/pgsql"} {
			if _, err := os.Stat(filepath.Join(prefix, folder, library+".so")); err == nil {
				found = append(found, library)
				break
			}
		}
	}
	return found
}
