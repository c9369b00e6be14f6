package account_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/account"
	"steward/internal/fault"
)

func TestParseScopes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want, fault string }{
		{"*", "*", ""},
		{"databases:read_only", "databases:read_only", ""},
		{"events:read_only databases:read_write", "databases:read_write events:read_only", ""},
		{"events:read_only,databases:read_write", "databases:read_write events:read_only", ""},
		{" , account:read_only , account:read_only ", "account:read_only", ""},
		{"databases:read_only *", "*", ""},
		{"", "", "scopes: scopes is required"},
		{" , ", "", "scopes: scopes is required"},
		{"databases", "", "scopes: Unknown scope(s): databases"},
		{"databases:write linodes:read_only events:read_only", "", "scopes: Unknown scope(s): databases:write, linodes:read_only"},
		{"* nonsense", "", "scopes: Unknown scope(s): nonsense"},
		{"Databases:read_only", "", "scopes: Unknown scope(s): Databases:read_only"},
		{"databases:*", "", "scopes: Unknown scope(s): databases:*"},
		{"databases:read_only:x", "", "scopes: Unknown scope(s): databases:read_only:x"},
	} {
		scopes, err := account.ParseScopes(c.text)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if scopes.String() != c.want || text != c.fault {
			t.Errorf("%q: %q, %q", c.text, scopes, text)
		}
	}
}

// all is every scope there is.
var all = []account.Scope{
	{Area: account.AreaDatabases, Access: account.ReadOnlyAccess},
	{Area: account.AreaDatabases, Access: account.ReadWriteAccess},
	{Area: account.AreaAccount, Access: account.ReadOnlyAccess},
	{Area: account.AreaAccount, Access: account.ReadWriteAccess},
	{Area: account.AreaEvents, Access: account.ReadOnlyAccess},
	{Area: account.AreaEvents, Access: account.ReadWriteAccess},
}

func anyScopes() *rapid.Generator[account.Scopes] {
	return rapid.Custom(func(t *rapid.T) account.Scopes {
		if rapid.IntRange(0, 5).Draw(t, "all") == 0 {
			return account.FullScopes()
		}
		return account.Scopes{List: rapid.SliceOfN(rapid.SampledFrom(all), 0, 4).Draw(t, "list")}
	})
}

// TestInclude: a token may make another exactly when that can do nothing more.
func TestInclude(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		mine, other := anyScopes().Draw(t, "mine"), anyScopes().Draw(t, "other")
		want := mine.All || !other.All
		for _, s := range all {
			if !mine.All && other.Allow(s) && !mine.Allow(s) {
				want = false
			}
		}
		if got := mine.Include(other); got != want {
			t.Fatalf("%q includes %q: %v", mine, other, got)
		}
	})
}

func TestReadWriteIncludesReadOnly(t *testing.T) {
	t.Parallel()
	for _, s := range all {
		for _, want := range all {
			expected := s.Area == want.Area && (s.Access == want.Access || s.Access == account.ReadWriteAccess)
			if s.Covers(want) != expected || (account.Scopes{List: []account.Scope{s}}).Allow(want) != expected {
				t.Errorf("%s covers %s: %v", s, want, !expected)
			}
		}
		if !account.FullScopes().Allow(s) || (account.Scopes{}).Allow(s) {
			t.Errorf("all or nothing and %s", s)
		}
	}
}

func FuzzParseScopes(f *testing.F) {
	for _, seed := range []string{"*", "databases:read_only events:read_write", ",,", "a:b", strings.Repeat("x ", 5000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		scopes, err := account.ParseScopes(text)
		if err != nil {
			if !fault.IsKind(err, fault.Invalid) || len(err.Error()) > 8192 {
				t.Fatalf("%d bytes: %v", len(err.Error()), err)
			}
			return
		}
		again, err := account.ParseScopes(scopes.String())
		if err != nil || again.String() != scopes.String() {
			t.Fatalf("%q is written %q and read back %q, %v", text, scopes, again, err)
		}
		if !scopes.Include(again) || !again.Include(scopes) {
			t.Fatalf("%q doesn't include itself", scopes)
		}
	})
}
