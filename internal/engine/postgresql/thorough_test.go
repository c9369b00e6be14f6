package postgresql

import (
	"testing"

	"steward/internal/engine/enginetest"
)

func TestConformanceThorough(t *testing.T) {
	t.Parallel()
	enginetest.RunThorough(t, New(), enginetest.Options{Open: open})
}
