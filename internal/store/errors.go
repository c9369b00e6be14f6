package store

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/monitor"
)

// ErrStale is returned when a row changed since it was read: read again and redo.
var ErrStale = errors.New("the row has changed since it was read")

// ErrNoTransition is returned when the status table has no such change, or
// another writer was first.
var ErrNoTransition = errors.New("no such status change from the present status")

// ErrLeaseLost is returned to who writes under a lease that somebody else has by now.
var ErrLeaseLost = errors.New("the lease has passed to somebody else")

// BackupLabelTaken is the fault of a backup whose label another of the same
// database has.
func BackupLabelTaken() *fault.Fault {
	return fault.NewInvalid("label", "Label must be unique among the database's backups")
}

// BackupRuns is the fault of a second backup at once.
func BackupRuns() *fault.Fault {
	return fault.NewPrecondition("A backup of the database is being taken; wait until it is complete.")
}

// classify turns what the database says into faults, by constraint name.
func classify(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fault.NewNotFound()
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	switch pg.ConstraintName {
	case "clusters_label_unique":
		return cluster.LabelTaken()
	case "backups_label_unique":
		return BackupLabelTaken()
	case "backups_running_unique":
		return BackupRuns()
	case "migrations_running_unique":
		return fault.NewPrecondition("Another migration of the database goes on; wait until it has ended, or cancel it.")
	case "credentials_label_unique":
		return monitor.CredentialLabelTaken()
	case "alert_channels_label_unique":
		return fault.NewInvalid("label", "Another channel has this label")
	case "accounts_name_unique":
		return fault.NewInvalid("name", "There is an account of this name")
	case "users_username_unique":
		return fault.NewInvalid("username", "Username taken")
	case "status_pages_slug_unique":
		return monitor.StatusPageSlugTaken()
	case "computes_label_unique":
		return monitor.MachineLabelTaken()
	}
	return err
}
