package postgresql

import "steward/internal/engine/enginetest"

func attempts() []enginetest.Attempt { return nil }
