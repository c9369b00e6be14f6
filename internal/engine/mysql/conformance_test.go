package mysql_test

import (
	"log/slog"
	"testing"

	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/engine/mysql"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conforms(t, enginetest.Run)
}

func TestConformanceThorough(t *testing.T) {
	t.Parallel()
	conforms(t, enginetest.RunThorough)
}

func conforms(t *testing.T, run func(t *testing.T, driver engine.Driver, o enginetest.Options)) {
	driver := mysql.New(slog.New(slog.NewTextHandler(t.Output(), nil)))
	run(t, driver, enginetest.Options{Open: open, Attempts: attempts(), NewUser: newUser})
}

func newUser(inst engine.Installation) []string {
	if inst.Flavour == engine.FlavourMariaDB {
		return []string{"CALL steward.create_user('newcomer', 'Newcomer-4Kq8')"}
	}
	return []string{"CREATE USER newcomer IDENTIFIED BY 'Newcomer-4Kq8'"}
}
