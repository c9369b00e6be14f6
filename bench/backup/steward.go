package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"steward/bench/command"
	"steward/internal/archive/archivetest"
	"steward/test/harness"
)

// polling is how often the API is asked.
const polling = 50 * time.Millisecond

// steward is a database behind steward's API, as a Target and as a Server.
type steward struct {
	test        *harness.Outside
	server      *harness.Server
	database    harness.Database
	credentials harness.Credentials
	backups     int
	last        stored
	// lost is what servers used that a restore has killed: nobody waits for them.
	lost float64
}

// stored is a backup as the API shows it.
type stored struct {
	ID     int64  `json:"id"`
	Label  string `json:"label"`
	State  string `json:"state"`
	Stored *int64 `json:"stored_bytes"`
}

// startSteward starts it without the proof of each backup, which is a restore of
// its own after the backup.
func startSteward(engine, plan string, s3 bool) (*steward, error) {
	s := &steward{test: &harness.Outside{}}
	config := "backups:\n  verify: false"
	if engine == "postgresql/15" || engine == "mysql/10.11" {
		config += "\nengines:\n  folders: []" // the distribution's alone: no templates are made of others meanwhile
	}
	err := harness.Attempt(func() {
		var env []string
		if s3 {
			bucket := archivetest.NewBucket(s.test)
			config = strings.Replace(config, "backups:", "backups:\n  url: '"+bucket.URL()+"'", 1)
			env = bucket.Env()
		}
		s.server = harness.Prepare(s.test, harness.WithConfig(config))
		s.server.Env = env
		s.server.Start()
		spec := harness.Small("backup", engine)
		spec["type"] = plan
		s.database = s.server.CreateActive(spec)
		s.credentials = s.server.Credentials(s.database)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start steward: %w", err), s.Close())
	}
	return s, nil
}

// Name implements Target.
func (*steward) Name() string { return "steward" }

// Server implements Target.
func (s *steward) Server() Server { return s }

func (s *steward) engine() string { return s.database.Engine }

func (s *steward) open() (*sql.DB, error) {
	db, err := harness.Connect(context.Background(), s.database, s.credentials, "127.0.0.1")
	if err == nil {
		db.SetMaxOpenConns(0)
	}
	return db, err
}

func (s *steward) size(ctx context.Context) (int64, error) { return sizeOf(ctx, s) }

// quiet: a customer's account may not ask for a checkpoint; a backup, which does,
// has one before it. Another one finds little to write.
func (*steward) quiet(ctx context.Context) error {
	command.Sleep(ctx, 3*time.Second)
	return ctx.Err()
}

func (s *steward) call(method, path string, in, out any) error {
	status, body, err := s.server.TryCall(method, s.database.Path()+path, in, nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s %s: %d %s", method, path, status, body)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal([]byte(body), out)
}

// Backup implements Target. Being complete is seen late by up to polling.
func (s *steward) Backup(ctx context.Context) error {
	if err := s.forget(ctx); err != nil {
		return err
	}
	s.backups++
	label := fmt.Sprintf("bench%d", s.backups)
	if err := s.call(http.MethodPost, "/backups", map[string]any{"label": label}, nil); err != nil {
		return err
	}
	err := command.Until(ctx, polling, func() error {
		var list struct {
			Data []stored `json:"data"`
		}
		if err := s.call(http.MethodGet, "/backups", nil, &list); err != nil {
			return err
		}
		for _, b := range list.Data {
			if b.Label == label && b.State != "running" {
				s.last = b
				return nil
			}
		}
		return errors.New("the backup isn't complete")
	})
	if err == nil && s.last.State != "complete" {
		err = fmt.Errorf("the backup is %s", s.last.State)
	}
	if err != nil {
		return s.why(err)
	}
	return s.active(ctx)
}

// why adds the end of steward's log to an error, without our own polling.
func (s *steward) why(err error) error {
	return harness.Attempt(func() { s.test.Fatalf("%v\n%s", err, s.server.LogTail()) })
}

// forget removes the backup before: there is no need for room for all.
func (s *steward) forget(context.Context) error {
	if s.last.ID == 0 {
		return nil
	}
	id := s.last.ID
	s.last = stored{}
	return s.call(http.MethodDelete, fmt.Sprintf("/backups/%d", id), nil, nil)
}

// active waits until the database is; what else it is was asked for by us.
func (s *steward) active(ctx context.Context) error {
	err := command.Until(ctx, polling, func() error {
		if err := s.call(http.MethodGet, "", nil, &s.database); err != nil {
			return err
		}
		if s.database.Status != "active" {
			return fmt.Errorf("the database is %s", s.database.Status)
		}
		return nil
	})
	if err != nil {
		return s.why(err)
	}
	return nil
}

// Stored implements Target.
func (s *steward) Stored() (int64, error) {
	if s.last.Stored == nil {
		return 0, errors.New("the backup has no size")
	}
	return *s.last.Stored, nil
}

// Restore implements Target.
func (s *steward) Restore(ctx context.Context) error {
	for pid, line := range s.server.Processes() {
		if strings.Contains(line, s.server.Data+"/clusters/") {
			s.lost += ownCPU(pid)
		}
	}
	if err := s.call(http.MethodPost, fmt.Sprintf("/backups/%d/restore", s.last.ID), nil, nil); err != nil {
		return err
	}
	if err := s.active(ctx); err != nil {
		return err
	}
	db, err := s.open()
	if err != nil {
		return err
	}
	return db.Close()
}

// Restored implements Target.
func (s *steward) Restored() Server { return s }

// Tidy implements Target. What a restore sets aside it keeps.
func (*steward) Tidy() error { return nil }

// CPU implements Target: of steward, its store, the gateway and the servers.
func (s *steward) CPU() float64 { return s.lost + cpuOf(s.server.PID()) }

// Peak implements Target: of steward's own process.
func (s *steward) Peak() int64 { return peakOf(s.server.PID()) }

// Close implements Target.
func (s *steward) Close() error { return s.test.Close() }
