package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// pgBackRest backs the floor's server up: zstd, AES, two processes.
type pgBackRest struct {
	*tools
	hand     *hand
	restored *node
}

func backRest(config string) []string {
	return []string{"pgbackrest", "--config=" + config, "--stanza=bench", "--log-level-console=warn"}
}

// newPgBackRest writes the configuration; the stanza is made when it is used first,
// so that loading the data isn't slowed.
func newPgBackRest(ctx context.Context, h *hand) (*pgBackRest, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &pgBackRest{tools: &tools{dir: h.dir, as: h.as}, hand: h}, nil
}

func (p *pgBackRest) configure(ctx context.Context) error {
	config := p.hand.path("pgbackrest.conf")
	if _, err := os.Stat(config); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := fmt.Sprintf("[global]\nrepo1-path=%[1]s/repo\nrepo1-cipher-type=aes-256-cbc\nrepo1-cipher-pass=bench\nrepo1-retention-full=1\n"+
		"compress-type=zst\ncompress-level=3\nprocess-max=2\nstart-fast=y\nlog-path=%[1]s\nlock-path=%[1]s/lock\nspool-path=%[1]s\n\n"+
		"[bench]\npg1-path=%[2]s\npg1-socket-path=%[2]s\npg1-port=%[3]d\npg1-user=bench\n", p.dir, p.hand.server.data, p.hand.server.port)
	if err := os.WriteFile(config+".new", []byte(text), 0o644); err != nil {
		return err
	}
	if err := p.rest(ctx, config+".new", "stanza-create"); err != nil {
		return err
	}
	return os.Rename(config+".new", config) // from now on WAL is archived
}

func (p *pgBackRest) rest(ctx context.Context, config string, args ...string) error {
	argv := append(backRest(config), args...)
	return p.run(ctx, argv[0], argv[1:]...)
}

// Name implements Target.
func (*pgBackRest) Name() string { return "pgbackrest" }

// Server implements Target.
func (p *pgBackRest) Server() Server { return quietly{p.hand.server, p} }

// quietly configures the peer before its first backup.
type quietly struct {
	*node
	peer *pgBackRest
}

func (q quietly) quiet(ctx context.Context) error {
	return errors.Join(q.peer.configure(ctx), q.node.quiet(ctx))
}

// Backup implements Target.
func (p *pgBackRest) Backup(ctx context.Context) error {
	return p.rest(ctx, p.hand.path("pgbackrest.conf"), "--type=full", "backup")
}

// Stored implements Target: all files of the last backup.
func (p *pgBackRest) Stored() (int64, error) {
	latest, err := filepath.EvalSymlinks(filepath.Join(p.dir, "repo/backup/bench/latest"))
	if err != nil {
		return 0, err
	}
	var bytes int64
	return bytes, filepath.WalkDir(latest, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
}

// Restore implements Target.
func (p *pgBackRest) Restore(ctx context.Context) error {
	data := p.hand.path("restored")
	if err := p.run(ctx, "mkdir", "-m", "700", data); err != nil {
		return err
	}
	if err := p.rest(ctx, p.hand.path("pgbackrest.conf"), "--pg1-path="+data, "restore"); err != nil {
		return err
	}
	var err error
	p.restored, err = p.hand.startNode(ctx, data)
	return err
}

// Restored implements Target.
func (p *pgBackRest) Restored() Server { return p.restored }

// Tidy implements Target.
func (p *pgBackRest) Tidy() error {
	if p.restored == nil {
		return nil
	}
	p.cpu += cpuOf(p.restored.cmd.Process.Pid)
	p.restored.end()
	data := p.restored.data
	p.restored = nil
	return os.RemoveAll(data)
}

// CPU implements Target.
func (p *pgBackRest) CPU() float64 {
	used := p.cpu + cpuOf(p.hand.server.cmd.Process.Pid)
	if p.restored != nil {
		used += cpuOf(p.restored.cmd.Process.Pid)
	}
	return used
}

// Peak implements Target.
func (*pgBackRest) Peak() int64 { return 0 }

// Close implements Target; the floor's folder, which it lives in, is the floor's.
func (p *pgBackRest) Close() error { return p.Tidy() }
