package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/pgtest"
)

// TestAudit: lines are added and read, and nothing else.
func TestAudit(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	ctx, now := t.Context(), time.Now().UTC().Truncate(time.Microsecond)
	line := account.Audit{
		At: now, Account: 1, User: 2, Username: "ann", Token: 3, Client: "c", Address: "192.0.2.1",
		Action: "DELETE /v4/x/{id}", Path: "/v4/x/1", Status: 200, RequestID: "r",
	}
	hostile := account.Audit{At: now, Username: "a\x00b\xff", Path: strings.Repeat("ö", 5000), Status: 401}
	old := account.Audit{At: now.Add(-31 * 24 * time.Hour), Username: "ann", Status: 200}
	if err := s.AddAudit(ctx, line, hostile, old); err != nil {
		t.Fatal(err)
	}
	read := func(since time.Time, user string) (all []account.Audit) {
		if err := s.Audit(ctx, since, user, func(a account.Audit) error { all = append(all, a); return nil }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	// Who is known by id only is named as long as there is such a user.
	user := newAccount(t, s, "acme")
	if err := s.AddAudit(ctx, account.Audit{At: now, User: user.ID, Status: 200}); err != nil {
		t.Fatal(err)
	}
	if named := read(now.Add(-time.Hour), user.Username); len(named) != 1 || named[0].User != user.ID {
		t.Errorf("%+v", named)
	}
	line.ID = 1
	if diff := cmp.Diff([]account.Audit{line}, read(now.Add(-time.Hour), "ann"), sameInstant); diff != "" {
		t.Error(diff)
	}
	if all := read(now.Add(-time.Hour), ""); len(all) != 3 || all[1].Username != "a?b?" || len(all[1].Path) > 512 {
		t.Errorf("%+v", all)
	}
	for _, sql := range []string{
		"UPDATE audit SET username = 'bob'", "DELETE FROM audit", "TRUNCATE audit",
		"UPDATE audit SET at = now() - interval '40 days'",
	} {
		if _, err := s.Pool().Exec(ctx, sql); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	tx, err := s.Pool().Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "SELECT set_config('steward.audit_expire', 'on', true)"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "DELETE FROM audit"); err == nil {
		t.Error("the setting alone opens the trail of the last 30 days")
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if gone, err := s.ExpireAudit(ctx, now.Add(time.Hour)); gone != 1 || err != nil {
		t.Errorf("%d lines expired, %v", gone, err)
	}
	if all := read(time.Time{}, ""); len(all) != 3 {
		t.Errorf("%d lines are left", len(all))
	}
}
