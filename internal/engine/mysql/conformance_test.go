package mysql_test

import (
	"log/slog"
	"testing"

	"steward/internal/engine/enginetest"
	"steward/internal/engine/mysql"
)

func TestConformance(t *testing.T) {
	driver := mysql.New(slog.New(slog.NewTextHandler(t.Output(), nil)))
	enginetest.Run(t, driver, enginetest.Options{Open: open, Attempts: attempts()})
}
