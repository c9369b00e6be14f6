package mysql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"steward/internal/engine"
)

// Discover implements engine.Driver.
func (d *Driver) Discover(ctx context.Context, folders []string) (found []engine.Installation, notes []error) {
	described, notes := engine.Described(folders, engine.FlavourMariaDB, engine.FlavourMySQL)
	for _, inst := range described {
		if err := usable(inst); err != nil {
			notes = append(notes, fmt.Errorf("%s: %w", inst.ID(), err))
			continue
		}
		found = append(found, inst)
	}
	for _, folder := range d.system {
		for _, flavour := range []engine.Flavour{engine.FlavourMariaDB, engine.FlavourMySQL} {
			inst, err := distributed(ctx, flavour, filepath.Join(folder, flavourOf(flavour).dialect().server))
			switch {
			case errors.Is(err, os.ErrNotExist):
			case err != nil:
				notes = append(notes, err)
			default:
				found = append(found, inst)
			}
		}
	}
	return found, notes
}

// distributed describes the distribution's own server, which has its paths
// compiled in.
func distributed(ctx context.Context, flavour engine.Flavour, program string) (engine.Installation, error) {
	var inst engine.Installation
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return inst, err
	}
	if filepath.Base(real) != filepath.Base(program) {
		// MariaDB comes with a mysqld that is a link to itself.
		return inst, os.ErrNotExist
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--no-defaults", "--version")
	cmd.Env = environment
	out, err := cmd.CombinedOutput()
	if err != nil {
		return inst, fmt.Errorf("ask %s for its version: %w", program, err)
	}
	if (flavour == engine.FlavourMariaDB) != strings.Contains(string(out), "MariaDB") {
		return inst, fmt.Errorf("%s is no %s: %s", program, flavour, strings.TrimSpace(string(out)))
	}
	version, err := parseVersion(string(out))
	if err != nil {
		return inst, fmt.Errorf("ask %s for its version: %w", program, err)
	}
	home := filepath.Dir(filepath.Dir(program))
	inst = engine.Installation{
		Flavour: flavour, Version: version, Series: version[:strings.LastIndexByte(version, '.')],
		Builder: "debian", Home: home, Bin: programs(program, filepath.Join(home, "bin", backupProgram)),
		Share: firstFolder(filepath.Join(home, "share/mysql"), filepath.Join(home, "share/mariadb")),
		PluginDir: firstFolder(filepath.Join(home, "lib/mysql/plugin"), filepath.Join(home, "lib64/mysql/plugin"),
			filepath.Join(home, "lib64/mariadb/plugin")),
	}
	for _, name := range append([]string{copyProgram, streamProgram, upgradeProgram}, upgradePrograms...) {
		path := filepath.Join(home, "bin", name)
		if _, err := os.Stat(path); err == nil && flavour == engine.FlavourMariaDB {
			inst.Bin[name] = path
		}
	}
	return inst, usable(inst)
}

// programs are the server and, of the others, those that are there.
func programs(server string, others ...string) map[string]string {
	bin := map[string]string{filepath.Base(server): server}
	for _, path := range others {
		if _, err := os.Stat(path); err == nil {
			bin[filepath.Base(path)] = path
		}
	}
	return bin
}

func firstFolder(candidates ...string) string {
	for _, c := range candidates {
		if info, err := os.Stat(c); err == nil && info.IsDir() {
			return c
		}
	}
	return ""
}

// usable tells what an installation lacks.
func usable(inst engine.Installation) error {
	dialect := flavourOf(inst.Flavour).dialect()
	program := inst.Bin[dialect.server]
	if program == "" {
		return fmt.Errorf("the program %s is not named", dialect.server)
	}
	needed := []string{program}
	if len(inst.Loader) > 0 {
		needed = append(needed, inst.Loader[0])
	}
	if len(dialect.scripts) > 0 {
		if inst.Share == "" {
			return errors.New("the folder with its SQL scripts is not known")
		}
		for _, s := range dialect.scripts {
			needed = append(needed, scriptFile(inst, s))
		}
	}
	for _, path := range needed {
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	return nil
}
