package memplatform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"steward/internal/cluster"
	"steward/internal/platform"
)

// Content is what a cluster holds, as far as backups are concerned.
type Content struct {
	// Data stands for all tables.
	Data     string
	Password string
	// Installation wrote the data.
	Installation string
	// Node is the role of the node that a backup was taken from.
	Node cluster.Role
}

func (c *Cluster) content() Content {
	return Content{Data: c.Data, Password: c.Password, Installation: c.Installation}
}

// copyPieces is in how many pieces content is copied: between two of them a
// fault at StepCopy strikes.
const copyPieces = 4

// Backup implements platform.Archiver.
func (d *Driver) Backup(ctx context.Context, want platform.Wanted, from cluster.Role, w io.Writer) (platform.Copy, error) {
	made := platform.Copy{}
	err := d.faults.around(ctx, StepBackup, want.ID, func() error {
		c, ok := d.world.Cluster(want.ID)
		if !ok || !c.serves() {
			return fmt.Errorf("cluster %d: server doesn't answer", want.ID)
		}
		content := c.content()
		content.Node = cluster.Primary
		if _, follows := c.replica(); from == cluster.Replica && follows {
			content.Node = cluster.Replica
		}
		made = platform.Copy{Installation: c.Installation, ServerVersion: c.Version}
		text, err := json.Marshal(content)
		if err != nil {
			return err
		}
		return d.copy(ctx, want.ID, w, bytes.NewReader(text), len(text)/copyPieces+1, func(int64) {})
	})
	return made, err
}

// copy copies in pieces and tells how much it has copied.
func (d *Driver) copy(ctx context.Context, id cluster.ID, w io.Writer, r io.Reader, piece int, progress func(int64)) error {
	total := int64(0)
	for {
		n := int64(0)
		err := d.faults.around(ctx, StepCopy, id, func() (err error) {
			n, err = io.CopyN(w, r, int64(piece))
			return err
		})
		total += n
		progress(total)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Restore implements platform.Archiver.
func (d *Driver) Restore(ctx context.Context, want platform.Wanted, from platform.Source, r io.Reader, progress func(bytes int64)) (reached time.Time, err error) {
	if from.Recovery != nil {
		reached = from.Recovery.Until
	}
	return reached, d.restore(ctx, want, from, r, progress)
}

func (d *Driver) restore(ctx context.Context, want platform.Wanted, from platform.Source, r io.Reader, progress func(bytes int64)) error {
	content, err := d.read(ctx, want.ID, r, progress)
	if err != nil {
		return err
	}
	return d.faults.around(ctx, StepSwap, want.ID, func() error {
		if err := d.files(ctx, want); err != nil {
			return err
		}
		return d.change(want.ID, func(c *Cluster) {
			if from.Token == "" || c.Token != from.Token {
				c.Aside, c.Undone = new(c.content()), false
			}
			c.Data, c.Password, c.Installation, c.Token = content.Data, content.Password, content.Installation, from.Token
			c.Running, c.Bootstrapped, c.Routed = false, true, false
			if c.Recovered = nil; from.Recovery != nil {
				c.Recovered = &from.Recovery.Until
			}
		})
	})
}

// Fork implements platform.Archiver.
func (d *Driver) Fork(ctx context.Context, want platform.Wanted, from platform.Source, r io.Reader, progress func(bytes int64)) (reached time.Time, err error) {
	if from.Recovery != nil {
		reached = from.Recovery.Until
	}
	return reached, d.fork(ctx, want, from, r, progress)
}

func (d *Driver) fork(ctx context.Context, want platform.Wanted, from platform.Source, r io.Reader, progress func(bytes int64)) error {
	admin, err := d.o.Secrets.Secret(ctx, want.ID, platform.AdminPassword)
	if err != nil {
		return fmt.Errorf("secret %s: %w", platform.AdminPassword, err)
	}
	if from.AdminPassword == "" || from.AdminPassword == string(admin) {
		return fmt.Errorf("cluster %d: the source's own account can't be logged in to", want.ID)
	}
	content, err := d.read(ctx, want.ID, r, progress)
	if err != nil {
		return err
	}
	return d.faults.around(ctx, StepSwap, want.ID, func() error {
		if err := d.files(ctx, want); err != nil {
			return err
		}
		err := d.change(want.ID, func(c *Cluster) {
			c.Data, c.Password, c.Installation = content.Data, content.Password, content.Installation
			c.Running, c.Bootstrapped = true, false
			c.Starts++
		})
		if err != nil {
			return err
		}
		return d.bootstrap(ctx, want)
	})
}

// read reads a copy to its end.
func (d *Driver) read(ctx context.Context, id cluster.ID, r io.Reader, progress func(int64)) (Content, error) {
	const piece = 32
	var text bytes.Buffer
	var content Content
	if err := d.copy(ctx, id, &text, r, piece, progress); err != nil {
		return content, err
	}
	if err := json.Unmarshal(text.Bytes(), &content); err != nil {
		return content, fmt.Errorf("the copy isn't whole: %w", err)
	}
	return content, nil
}

// Undo implements platform.Archiver.
func (d *Driver) Undo(ctx context.Context, want platform.Wanted) error {
	return d.faults.around(ctx, StepUndo, want.ID, func() error {
		none := false
		err := d.change(want.ID, func(c *Cluster) {
			if none = c.Aside == nil && !c.Undone; c.Aside != nil {
				c.Data, c.Password, c.Installation, c.Aside = c.Aside.Data, c.Aside.Password, c.Aside.Installation, nil
				c.Running, c.Routed, c.Undone = false, false, true
			}
		})
		if err == nil && none {
			err = fmt.Errorf("cluster %d: %w", want.ID, platform.ErrNothingAside)
		}
		return err
	})
}

// Verify implements platform.Archiver.
func (d *Driver) Verify(ctx context.Context, want platform.Wanted, _ platform.Copy, r io.Reader) error {
	return d.faults.around(ctx, StepVerify, want.ID, func() error {
		_, err := d.read(ctx, want.ID, r, func(int64) {})
		return err
	})
}
