package config

import (
	"errors"
	"fmt"
	"time"

	"steward/internal/backup"
)

// Backups is where backups are kept, when they are taken and for how long.
type Backups struct {
	// URL is a gocloud.dev/blob URL; empty: a folder below the data folder.
	URL      string `koanf:"url"`
	Schedule string `koanf:"schedule"`
	// Keep is how many automatic ones are kept.
	Keep int `koanf:"keep"`
	// Verify has each backup restored into a scratch server, once.
	Verify bool `koanf:"verify"`
	// Continuous has what servers write between backups archived as well; nil: where what is
	// archived outlives the disk that the databases are on.
	Continuous *bool `koanf:"continuous"`
	// KeepAfterDelete is how long those of deleted databases are kept; 0: not at all.
	KeepAfterDelete time.Duration `koanf:"keep_after_delete"`
	// KeepFinal is how long the last backup of a deleted database is kept for its owner, who asked for one; 0: none can be asked for.
	KeepFinal time.Duration `koanf:"keep_final"`
	// Timeout is how long the bucket may leave a request without moving a byte.
	Timeout time.Duration `koanf:"timeout"`
	// RetryFor is how long a backup, a restore or a fork that fails is tried again.
	RetryFor time.Duration `koanf:"retry_for"`
}

// Restore says which root password a restored database has: "keep" is that
// of the time of the backup, "reapply" today's.
type Restore struct {
	Credentials string `koanf:"credentials"`
}

func (c Config) validateBackups() []error {
	var errs []error
	if _, err := backup.ParseSchedule(c.Backups.Schedule); err != nil {
		errs = append(errs, fmt.Errorf("backups.schedule: %w", err))
	}
	if c.Backups.Keep < 1 || c.Backups.Keep > 1000 {
		errs = append(errs, errors.New("backups.keep: must be 1-1000"))
	}
	if c.Backups.KeepAfterDelete < 0 {
		errs = append(errs, errors.New("backups.keep_after_delete: must not be negative"))
	}
	if c.Backups.KeepFinal < 0 {
		errs = append(errs, errors.New("backups.keep_final: must not be negative"))
	}
	if c.Backups.Timeout < time.Second || c.Backups.Timeout > time.Hour {
		errs = append(errs, errors.New("backups.timeout: must be 1s-1h"))
	}
	if c.Backups.RetryFor < time.Second || c.Backups.RetryFor > 24*time.Hour {
		errs = append(errs, errors.New("backups.retry_for: must be 1s-24h"))
	}
	if c.Restore.Credentials != "keep" && c.Restore.Credentials != "reapply" {
		errs = append(errs, errors.New("restore.credentials: must be keep or reapply"))
	}
	return errs
}
