package mysql

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"steward/internal/engine"
)

// templateSizes keep a template small, as copying it is most of what creating
// a cluster costs. The server grows redo to the plan's size when it starts.
var templateSizes = []string{
	"--innodb-data-file-path=" + systemTablespace, "--innodb-autoextend-increment=1",
	"--innodb-buffer-pool-size=64M",
}

// systemTablespace must be the same in templates and in configurations.
const systemTablespace = controlFile + ":5M:autoextend"

// controlFile is InnoDB's system tablespace.
const controlFile = "ibdata1"

// ControlFile implements engine.Driver.
func (*Driver) ControlFile() string { return controlFile }

// Template implements engine.Driver. The server's bootstrap keeps no binary
// log, so a clone begins with an empty history of transactions.
func (d *Driver) Template(ctx context.Context, inst engine.Installation, dir, templatePassword string, run engine.Runner) error {
	f := flavourOf(inst.Flavour)
	verifier, err := f.verifier(templatePassword)
	if err != nil {
		return fmt.Errorf("make template of %s: %w", inst.ID(), err)
	}
	accounts := strings.NewReplacer("{{verifier}}", verifier, "{{reserved}}", "").Replace(f.dialect().accounts) + statements(f.dialect().root)
	if err := f.initialise(ctx, inst, dir, accounts, run); err != nil {
		return fmt.Errorf("make template of %s: %w", inst.ID(), err)
	}
	if err := d.RegenerateIdentity(ctx, dir); err != nil {
		return fmt.Errorf("make template of %s: %w", inst.ID(), err)
	}
	return nil
}

func statements(list []string) string {
	var b strings.Builder
	for _, s := range list {
		b.WriteString(s + ";\n")
	}
	return b.String()
}

// belongings are the files of a data folder that are one server's own, and
// buffers that mean nothing after a clean stop. A server without them makes
// new ones.
var belongings = []string{
	"auto.cnf", "*.pem", "binlog.*", "relay*", "*-relay-bin*", "master.info", "master-*.info", "multi-master.info",
	"ibtmp1", "#ib_*.dblwr", "*.pid", initFile, asyncFlushFile,
}

// RegenerateIdentity implements engine.Driver.
func (d *Driver) RegenerateIdentity(_ context.Context, dir string) error {
	if err := removeAll(dir, belongings...); err != nil {
		return fmt.Errorf("make %s its own server: %w", dir, err)
	}
	return nil
}

// removeAll removes the files of the folder that match one of the patterns.
func removeAll(dir string, patterns ...string) error {
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, f := range files {
			if info, err := os.Lstat(f); err == nil && info.IsDir() {
				continue // a customer's database that happens to fit
			}
			if err := os.Remove(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// readScripts joins the installation's own SQL.
func readScripts(inst engine.Installation, names []string) ([]byte, error) {
	var all bytes.Buffer
	for _, name := range names {
		content, err := os.ReadFile(scriptFile(inst, name))
		if err != nil {
			return nil, fmt.Errorf("read the server's scripts: %w", err)
		}
		all.Write(content)
		all.WriteByte('\n')
	}
	return all.Bytes(), nil
}

// scriptFile is where a script is: a name that begins with _ has a prefix.
func scriptFile(inst engine.Installation, name string) string {
	if !strings.HasPrefix(name, "_") {
		return filepath.Join(inst.Share, name)
	}
	old := filepath.Join(inst.Share, "mysql"+name)
	if _, err := os.Stat(old); err == nil {
		return old
	}
	return filepath.Join(inst.Share, "mariadb"+name)
}

// runServer runs the server program to its end and makes its last words the error.
func runServer(ctx context.Context, inst engine.Installation, server, dir string, run engine.Runner, stdin []byte, args ...string) error {
	argv := inst.Program(server, append([]string{"--no-defaults"}, args...)...)
	out, err := run(ctx, dir, engine.Process{Argv: argv, Env: environment}, stdin)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", err, lastWords(out))
}

// lastWords are what a program said last.
func lastWords(out []byte) []byte {
	const enough = 1000
	return bytes.TrimSpace(out[max(0, len(out)-enough):])
}

// located are the options that a relocated installation needs.
func located(inst engine.Installation) []string {
	var args []string
	for _, s := range locations(inst) {
		args = append(args, "--"+strings.ReplaceAll(s.name, "_", "-")+"="+s.text())
	}
	return args
}
