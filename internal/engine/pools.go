package engine

import "context"

// Pooled is implemented by drivers whose servers connection pools can be put before.
type Pooled interface {
	// Verifiers are what proves the passwords of those who may log in to a server, by their names; our own accounts aren't
	// among them, nor any superuser.
	Verifiers(ctx context.Context, n Node) (map[string]string, error)
	// Verifier is what proves a password of ours, which is long and random.
	Verifier(password string) (string, error)
}
