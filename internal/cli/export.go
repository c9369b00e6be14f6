package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"steward/internal/config"
	"steward/internal/operator"
)

// readerFlags are embedded in operators' commands that open backups.
type readerFlags struct {
	dataFlag
	Backups string `help:"Where the backups are, when that isn't the configured place: a folder, or the URL of an object store."`
	SealKey string `name:"seal-key" help:"A server's seal.key, or the URL of its key service: does without the server, with --backups."`
	Store   string `help:"PostgreSQL URL of the store, when it isn't steward's own."`
	Config  string `help:"Configuration file (YAML)." type:"existingfile"`
}

func (f readerFlags) open(ctx context.Context, keyFile string) (*operator.BackupReader, error) {
	config, err := config.Load(f.Config)
	if err != nil {
		return nil, err
	}
	return operator.OpenBackupReader(ctx, operator.BackupReaderOptions{
		Data: f.Data, Store: f.Store, Archive: f.Backups, SealKey: f.SealKey, KeyFile: keyFile, Config: config,
	})
}

type backupExportCommand struct {
	readerFlags
	databaseArg
	Backup  string `arg:"" help:"Id or label of the backup."`
	Output  string `short:"o" help:"File to write, which must not be there; - is the standard output. By default database-N-backup-M.tar."`
	KeyFile string `name:"key-file" help:"File with the backup key (see backup key): does without the server, with --backups." type:"existingfile"`
}

func (f *backupExportCommand) Run(ctx context.Context, s *streams) error {
	v, err := f.open(ctx, f.KeyFile)
	if err != nil {
		return err
	}
	defer v.Close()
	file, err := v.Export(ctx, f.Database, f.Backup, f.Output, s.out, pace(s.err))
	if err != nil {
		return err
	}
	fmt.Fprintf(s.err, "%s is complete; README.txt in it says how to start a server on the data.\n", file)
	return nil
}

// pace tells how far something is, once a second.
func pace(w io.Writer) func(done, of int64) {
	last := time.Now()
	return func(done, of int64) {
		if time.Since(last) >= time.Second {
			last = time.Now()
			fmt.Fprintf(w, "%s of %s\n", megabytes(done), megabytes(of))
		}
	}
}

type backupKeyCommand struct {
	readerFlags
	databaseArg
}

func (f *backupKeyCommand) Run(ctx context.Context, s *streams) error {
	v, err := f.open(ctx, "")
	if err != nil {
		return err
	}
	defer v.Close()
	key, err := v.Key(ctx, f.Database)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, key)
	return nil
}
