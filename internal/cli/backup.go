package cli

import (
	"context"
	"errors"
	"fmt"

	"steward/client"
	"steward/internal/operator"
)

type backupCommands struct {
	List      backupListCommand      `cmd:"" help:"List a database's backups."`
	Create    backupCreateCommand    `cmd:"" help:"Take a snapshot."`
	Delete    backupDeleteCommand    `cmd:"" help:"Delete a backup."`
	Windows   backupWindowsCommand   `cmd:"" help:"List the times from which a database can be restored or forked."`
	Restore   backupRestoreCommand   `cmd:"" help:"Replace all of the database's data by a backup's."`
	RestoreTo backupRestoreToCommand `cmd:"" help:"Replace all of the database's data by what it was at a moment."`
	Finals    backupFinalsCommand    `cmd:"" help:"List the last backups of deleted databases; a database is made of one with db create --fork and its id."`
	DropFinal backupDropFinalCommand `cmd:"" help:"Remove the last backup of a deleted database."`
	Undo      backupUndoCommand      `cmd:"" help:"Bring back the data that the database's last restore replaced, for a day after it."`
	Export    backupExportCommand    `cmd:"" help:"Write a backup as a tar archive that is restored without steward (operators)."`
	Key       backupKeyCommand       `cmd:"" help:"Print the age identity that opens a database's backups (operators)."`
}

type backupListCommand struct {
	apiFlags
	jsonFlag
	databaseArg
}

func (f *backupListCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	all, err := c.Backups(ctx, d)
	if err != nil {
		return err
	}
	return printList(s.out, all, f.JSON, []string{"id", "label", "type", "created", "state", "size", "stored", "verified"}, func(b client.Backup) []string {
		return []string{fmt.Sprint(b.ID), b.Label, b.Type, b.Created, b.State, megabytes(b.SizeBytes), megabytes(b.StoredBytes), verifiedOf(b)}
	})
}

func megabytes(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/(1<<20))
}

// verifiedOf is whether a backup was proven to restore.
func verifiedOf(b client.Backup) string {
	switch {
	case b.Problem != "":
		return b.Problem
	case b.Verified != "":
		return b.Verified
	case b.Verification == "timed_out":
		return "not verified: took too long"
	}
	return "-"
}

type backupCreateCommand struct {
	apiFlags
	waitFlag
	databaseArg
	Label  string `arg:"" help:"Its name: 1-30 ASCII letters and digits."`
	Target string `help:"Node to take it from: primary or secondary." enum:"primary,secondary" default:"primary"`
}

func (f *backupCreateCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if err := c.CreateSnapshot(ctx, d, client.CreateSnapshot{Label: f.Label, Target: f.Target}); err != nil {
		return err
	}
	if _, err := f.settle(ctx, c, d, s); err != nil || f.Wait == 0 {
		return err
	}
	b, err := c.FindBackup(ctx, d, f.Label)
	if err != nil {
		return err
	}
	if b.State != "complete" {
		return fmt.Errorf("%s is %s: %s", b.Label, b.State, b.Problem)
	}
	fmt.Fprintf(s.out, "%s is complete: %s, stored as %s.\n", b.Label, megabytes(b.SizeBytes), megabytes(b.StoredBytes))
	return nil
}

// backupArg names one of a database's backups.
type backupArg struct {
	databaseArg
	Backup string `arg:"" help:"Id or label of the backup."`
}

func (a backupArg) findBackup(ctx context.Context, c *client.Client, d client.Database) (client.Backup, error) {
	return c.FindBackup(ctx, d, a.Backup)
}

type backupDeleteCommand struct {
	apiFlags
	backupArg
}

func (f *backupDeleteCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database, b client.Backup) error {
	if err := c.DeleteBackup(ctx, d, b); err != nil {
		return err
	}
	fmt.Fprintln(s.out, b.Label, "is deleted.")
	return nil
}

type backupRestoreCommand struct {
	apiFlags
	waitFlag
	backupArg
	Yes bool `help:"Don't ask."`
}

func (f *backupRestoreCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database, b client.Backup) error {
	question := fmt.Sprintf("Replace all data of %s by that of %s, taken %s?", d.Label, b.Label, b.Created)
	if err := confirmLabel(s, d, f.Yes, question); err != nil {
		return err
	}
	if err := c.RestoreBackup(ctx, d, b); err != nil {
		return err
	}
	return settleAndPrint(ctx, s, c, d, f.waitFlag)
}

type backupRestoreToCommand struct {
	apiFlags
	waitFlag
	databaseArg
	To  string `arg:"" help:"The moment, UTC: 2026-01-31T18:04:05. \"steward backup windows\" lists those that there are."`
	Yes bool   `help:"Don't ask."`
}

func (f *backupRestoreToCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if err := confirmLabel(s, d, f.Yes, fmt.Sprintf("Replace all data of %s by what it was at %s?", d.Label, f.To)); err != nil {
		return err
	}
	if err := c.RestoreTo(ctx, d, f.To); err != nil {
		return err
	}
	return settleAndPrint(ctx, s, c, d, f.waitFlag)
}

type backupUndoCommand struct {
	apiFlags
	waitFlag
	databaseArg
	Yes bool `help:"Don't ask."`
}

func (f *backupUndoCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	question := fmt.Sprintf("Give up all that was written to %s since its last restore, and bring back the data from before?", d.Label)
	if err := confirmLabel(s, d, f.Yes, question); err != nil {
		return err
	}
	if err := c.UndoRestore(ctx, d); err != nil {
		return err
	}
	return settleAndPrint(ctx, s, c, d, f.waitFlag)
}

// confirmLabel has a person type the database's label before its data is replaced.
func confirmLabel(s *streams, d client.Database, yes bool, question string) error {
	if yes {
		return nil
	}
	fmt.Fprint(s.out, question, " Type the database's label: ")
	var answer string
	if _, err := fmt.Fscanln(s.in, &answer); err != nil || answer != d.Label {
		return errors.New("nothing was restored")
	}
	return nil
}

// settleAndPrint waits, if asked to, and shows the database.
func settleAndPrint(ctx context.Context, s *streams, c *client.Client, d client.Database, w waitFlag) error {
	d, err := w.settle(ctx, c, d, s)
	if err != nil {
		return err
	}
	return printDatabases(s, []client.Database{d}, false)
}

// restoreCommand is the operator's, for what customers can't do themselves.
type restoreCommand struct {
	storeFlags
	Cluster  int64 `required:"" help:"Id of the database."`
	Undo     bool  `help:"Bring back the data that its last restore replaced." xor:"what" required:""`
	Password bool  `help:"Set the password that the API shows: the restored one is older." xor:"what" required:""`
	Undelete bool  `help:"Show a deleted database again whose backups were kept; then restore one." xor:"what" required:""`
}

func (c *restoreCommand) Run(ctx context.Context, s *streams, access *operator.Access) error {
	do := access.Readmit
	switch {
	case c.Undo:
		do = access.UndoRestore
	case c.Undelete:
		do = access.Undelete
	}
	if err := do(ctx, c.Cluster); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "The server does it within seconds, or when it is started; `steward event list` tells.")
	return nil
}

type backupWindowsCommand struct {
	apiFlags
	jsonFlag
	databaseArg
}

func (f *backupWindowsCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	all, err := c.RestoreWindows(ctx, d)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, all)
	}
	rows := make([][]string, len(all))
	for i, w := range all {
		rows[i] = []string{w.From, w.To}
	}
	return printTable(s.out, []string{"from", "to"}, rows)
}
