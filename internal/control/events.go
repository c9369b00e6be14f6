package control

import (
	"context"

	"steward/internal/account"
	"steward/internal/operation"
	"steward/internal/store"
)

// Events are the use cases of an account's events.
type Events struct {
	Deps
	// Hub hands out changes while it runs.
	Hub *EventHub
}

// List is a page of events, newest first, and how many match.
func (s *Events) List(ctx context.Context, p account.Principal, q store.ListQuery) ([]operation.Operation, int, error) {
	return s.Store.Operations(ctx, store.ViewerOf(p), q)
}

// View is one event.
func (s *Events) View(ctx context.Context, p account.Principal, id operation.ID) (operation.Operation, error) {
	return s.Store.Operation(ctx, store.ViewerOf(p), id)
}

// Seen marks the event and all older ones as seen.
func (s *Events) Seen(ctx context.Context, p account.Principal, id operation.ID) error {
	if _, err := s.View(ctx, p, id); err != nil {
		return err
	}
	return s.Store.MarkSeen(ctx, store.ViewerOf(p), id)
}

// Read marks one event as read.
func (s *Events) Read(ctx context.Context, p account.Principal, id operation.ID) error {
	if _, err := s.View(ctx, p, id); err != nil {
		return err
	}
	return s.Store.MarkRead(ctx, store.ViewerOf(p), id)
}
