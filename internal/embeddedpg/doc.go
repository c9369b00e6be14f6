// Package embeddedpg runs the PostgreSQL server that steward keeps its own state in
// when it is given no other: it sets the server up, starts, adopts and supervises it.
package embeddedpg
